#include "base/send_together.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>

namespace sluice {
namespace {

// The sockets on which the kernel holds something that this thread has sent.
struct Held {
  // So many messages at most, so that the first does not wait long for the last.
  static constexpr std::size_t kMostMessages = 64;

  // Takes note that something is about to be sent on `socket`. Whether it is to be held.
  bool Hold(int socket) {
    if (!open) return false;
    if (messages == kMostMessages) Release();
    ++messages;
    const auto end = sockets.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::find(sockets.begin(), end, socket) == end) sockets[count++] = socket;
    return true;
  }

  void Release() {
    for (std::size_t i = 0; i < count; ++i) {
      // Set already; to set it again sends what is held. A socket closed meanwhile holds nothing.
      constexpr int kOn = 1;
      setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
    }
    count = messages = 0;
  }

  bool open = false;
  std::size_t messages = 0;
  std::size_t count = 0;
  std::array<int, kMostMessages> sockets{};
};

thread_local Held held;

}  // namespace

SendTogether::SendTogether() {
  assert(!held.open);
  held.open = true;
}

SendTogether::~SendTogether() {
  held.open = false;
  held.Release();
}

}  // namespace sluice

// The C library's, but for the flag.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (sluice::held.Hold(socket)) flags |= MSG_MORE;
  return syscall(SYS_sendmsg, socket, message, flags);
}
