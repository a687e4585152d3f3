#include "base/send_together.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/thread.h"

namespace sluice {
namespace {

// Two ends of a connection.
class Ends {
 public:
  static Ends Unix() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    return {ends[0], ends[1]};
  }

  static Ends Tcp() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener, name, size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, name, &size), 0);
    const int near = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(near, name, size), 0);
    const int far = accept(listener, nullptr, nullptr);
    const int on = 1;
    EXPECT_EQ(setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    close(listener);
    return {near, far};
  }

  Ends(Ends&& other) noexcept
      : near_(std::exchange(other.near_, -1)), far_(std::exchange(other.far_, -1)) {}
  ~Ends() {
    CloseNear();
    close(far_);
  }

  int near() const { return near_; }
  int far() const { return far_; }
  void CloseNear() { close(std::exchange(near_, -1)); }

  void Send(std::string text) const {
    iovec piece{.iov_base = text.data(), .iov_len = text.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    EXPECT_EQ(sendmsg(near_, &message, 0), static_cast<ssize_t>(text.size()));
  }

  // Whether nothing has come to the far end.
  bool NothingCame() const {
    char byte = 0;
    return recv(far_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }

  // What comes to the far end; waits for `size` bytes, but not for ever.
  std::string Come(std::size_t size) const {
    std::string text;
    std::array<char, 8192> buffer{};
    pollfd readable{.fd = far_, .events = POLLIN, .revents = 0};
    while (text.size() < size && poll(&readable, 1, 10'000) == 1) {
      const ssize_t read = recv(far_, buffer.data(), buffer.size(), 0);
      if (read <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(read));
    }
    return text;
  }

 private:
  Ends(int near, int far) : near_(near), far_(far) {}

  int near_;
  int far_;
};

TEST(SendTogether, MessagesOfAScope_LeaveAtItsEnd) {
  const Ends one = Ends::Tcp();
  const Ends other = Ends::Tcp();
  {
    const SendTogether together;
    one.Send("a");
    other.Send("x");
    one.Send("b");
    EXPECT_TRUE(one.NothingCame());
    EXPECT_TRUE(other.NothingCame());
  }
  EXPECT_EQ(one.Come(2), "ab");
  EXPECT_EQ(other.Come(1), "x");
}

TEST(SendTogether, OutsideOfAScope_EachLeavesAtOnce) {
  const Ends ends = Ends::Tcp();
  ends.Send("a");
  EXPECT_EQ(ends.Come(1), "a");
  { const SendTogether together; }
  ends.Send("b");
  EXPECT_EQ(ends.Come(1), "b");
}

TEST(SendTogether, OtherThreads_AreNotHeld) {
  const Ends ends = Ends::Tcp();
  const SendTogether together;
  Thread("other", [&] { ends.Send("a"); }).Join();
  EXPECT_EQ(ends.Come(1), "a");
}

TEST(SendTogether, LongScope_DoesNotHoldTheFirstForTheLast) {
  const Ends ends = Ends::Tcp();
  const SendTogether together;
  for (int i = 0; i < 200; ++i) ends.Send("a");
  EXPECT_GE(ends.Come(100).size(), 100u);
}

TEST(SendTogether, UnixSockets_AreNotHeld) {
  const Ends ends = Ends::Unix();
  const SendTogether together;
  ends.Send("a");
  EXPECT_EQ(ends.Come(1), "a");
}

TEST(SendTogether, SocketClosedInTheScope_SendsWhatItHeldAndItsNumberIsFree) {
  Ends closed = Ends::Tcp();
  std::optional<Ends> next;
  const int number = closed.near();
  {
    const SendTogether together;
    closed.Send("a");
    closed.CloseNear();
    next.emplace(Ends::Unix());
    EXPECT_TRUE(next->near() == number || next->far() == number);
    next->Send("b");
  }
  EXPECT_EQ(closed.Come(1), "a");
  EXPECT_EQ(next->Come(1), "b");
}

TEST(SendTogether, Failure_IsTheSystemCalls) {
  const msghdr nothing{};
  const SendTogether together;
  EXPECT_EQ(sendmsg(-1, &nothing, 0), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace sluice
