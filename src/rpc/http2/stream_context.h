// What the streams of one connection share: the frames they send, their memory, and the queues in
// which they wait.
//
// Loop thread only. Owned by a Session.
#pragma once

#include <vector>

#include "base/clock.h"
#include "net/transport.h"
#include "rpc/http2/frame_writer.h"
#include "rpc/http2/loop_state.h"
#include "rpc/http2/message_memory.h"
#include "rpc/http2/sent_answers.h"
#include "rpc/http2/wait_queue.h"

namespace sluice::rpc::http2 {

class Stream;

struct StreamContext {
  StreamContext(LoopState& the_loop, net::Transport& the_transport, PeerUse& peer_use)
      : loop(the_loop),
        transport(the_transport),
        frames(the_transport),
        memory(the_loop, peer_use) {}

  SteadyTime now() const { return loop.loop().now(); }

  // Calls RunCallbacks of the stream at the end of the iteration.
  void RequestCallbacks(Stream& stream) {
    with_callbacks.push_back(&stream);
    transport.RequestFlush();
  }

  LoopState& loop;
  net::Transport& transport;
  FrameWriter frames;
  MessageMemory memory;
  WaitQueue<Stream> incomplete_requests;
  WaitQueue<Stream> unsent_responses;  // their bytes wait for the peer's window
  SentAnswers sent_answers;
  std::vector<Stream*> with_callbacks;
  bool draining = false;
  bool early_ends = false;  // whether a response has ended before its request
};

}  // namespace sluice::rpc::http2
