// Lets small messages that a thread sends one soon after the other, over TCP, leave together: in as
// few packets as they fit in, not in one each. A packet costs both sides more than what a decision
// costs, and libraries such as gRPC write each answer for itself.
//
//   {
//     const SendTogether together;
//     for (Answer& answer : answers) answer.Send();   // copied to the kernel, which holds them
//   }                                                 // leave
//
// Works for what is sent by sendmsg, in libraries, too: this file's sendmsg takes the place of the
// C library's in a program that it is linked into. Where a library has another way to send, all is
// sent at once, as without; on Unix sockets, too. Not for UDP: its datagrams would become one, and
// stay.
#pragma once

namespace sluice {

// From its begin to its end, what this thread sends may be held. At most one at a time on a thread.
// REQUIRES: the sockets have TCP_NODELAY, as gRPC's do.
class SendTogether {
 public:
  SendTogether();
  ~SendTogether();
  SendTogether(const SendTogether&) = delete;
  SendTogether& operator=(const SendTogether&) = delete;
};

}  // namespace sluice
