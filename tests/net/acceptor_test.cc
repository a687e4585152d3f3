// Listening: addresses, and the behavior when no descriptors are left.
#include "net/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "tests/net/test_protocol.h"
#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

#ifdef SLUICE_SANITIZED
constexpr bool kUnderSanitizer = true;
#else
constexpr bool kUnderSanitizer = false;
#endif

Address Loopback() { return {.host = "127.0.0.1", .unix_path = {}}; }

// A running acceptor and its accepted connections.
class Listening {
 public:
  explicit Listening(const Address& address, const Acceptor::Options& options = {})
      : acceptor_(Acceptor::Listen(address, options).value()) {
    io_.Run([&] {
      acceptor_->Start(io_.loop(),
                       [this](Socket socket) { sockets_.push_back(std::move(socket)); });
    });
  }
  ~Listening() {
    io_.Run([&] { acceptor_->Stop(); });
  }

  const Address& address() const { return acceptor_->address(); }
  std::size_t count() {
    return io_.Run([&] { return sockets_.size(); });
  }
  void CloseAll() {
    io_.Run([&] { sockets_.clear(); });
  }
  OneIoThread& io() { return io_; }
  Acceptor& acceptor() { return *acceptor_; }

 private:
  OneIoThread io_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<Socket> sockets_;
};

TEST(Acceptor, PortZero_ListensOnAFreePortAndSaysWhich) {
  Listening listening(Loopback());
  EXPECT_NE(listening.address().port, 0);
  const auto first = BlockingSocket::ConnectTo(listening.address());
  const auto second = BlockingSocket::ConnectTo(listening.address());
  EXPECT_TRUE(test::WaitUntil(10s, [&] { return listening.count() == 2; }));
}

TEST(Acceptor, Listen_OnAHostName_Succeeds) {
  EXPECT_TRUE(Acceptor::Listen({.host = "localhost", .unix_path = {}}, {}));
}

TEST(Acceptor, Listen_OnAnIpv6Address_Succeeds) {
  const Address loopback{.host = "::1", .unix_path = {}};
  const Endpoint endpoint = Endpoint::FromNumeric(loopback).value();
  const Socket other(socket(AF_INET6, SOCK_STREAM, 0));
  if (!other.is_open() || bind(other.fd(), endpoint.get(), endpoint.size) != 0) {
    ASSERT_THAT(errno, AnyOf(EAFNOSUPPORT, EADDRNOTAVAIL));
    GTEST_SKIP() << "this machine has no IPv6";
  }
  const auto v6 = Acceptor::Listen(loopback, {});
  ASSERT_TRUE(v6) << v6.error().message;
  EXPECT_NE((*v6)->address().port, 0);
}

TEST(Acceptor, HostName_ListensOnEachLocalAddress) {
  const auto lookup = [](const Address&) -> Result<std::vector<Endpoint>> {
    std::vector<Endpoint> endpoints;
    for (const char* const host : {"192.0.2.1", "127.0.0.1", "127.0.0.2"}) {
      endpoints.push_back(Endpoint::FromNumeric({.host = host, .unix_path = {}}).value());
    }
    return endpoints;
  };
  Listening listening({.host = "both.test", .unix_path = {}}, {.lookup = lookup});
  for (const std::size_t already : {0U, 1U}) {
    Address address{.host = "127.0.0.1", .port = listening.address().port, .unix_path = {}};
    if (already == 1) address.host = "127.0.0.2";
    const auto caller = BlockingSocket::ConnectTo(address);
    EXPECT_TRUE(test::WaitUntil(10s, [&] { return listening.count() == already + 1; }));
  }
}

TEST(Acceptor, AddressInUse_Fails) {
  const Listening listening(Loopback());
  const auto second = Acceptor::Listen(listening.address(), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "cannot listen on " + listening.address().ToString() + ": Address already in use");
}

TEST(Acceptor, Restarted_WhileOldConnectionsEnd_Listens) {
  auto listening = std::make_unique<Listening>(Loopback());
  const Address address = listening->address();
  auto caller = BlockingSocket::ConnectTo(address);
  ASSERT_TRUE(test::WaitUntil(10s, [&] { return listening->count() == 1; }));
  listening->CloseAll();  // the server closes first, so its socket stays in TIME_WAIT
  EXPECT_EQ(caller.ReadAll(), "");
  caller.Close();
  listening.reset();
  EXPECT_TRUE(Acceptor::Listen(address, {}));
}

TEST(Acceptor, StaleUnixSocket_IsReplaced_LiveOneIsNot) {
  const test::TempDir dir;
  const Address address{.host = {}, .unix_path = dir.path() / "s"};
  {
    const Socket dead(socket(AF_UNIX, SOCK_STREAM, 0));
    const Endpoint endpoint = Endpoint::FromNumeric(address).value();
    ASSERT_EQ(0, bind(dead.fd(), endpoint.get(), endpoint.size));
  }
  ASSERT_EQ(0, access(address.unix_path.c_str(), F_OK));
  const Listening listening(address);
  const auto second = Acceptor::Listen(address, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("in use by another process"));
}

// While the old process drains, the next process can already listen.
TEST(Acceptor, Stop_LeavesTheUnixSocketToTheNextProcess) {
  const test::TempDir dir;
  const Address address{.host = {}, .unix_path = dir.path() / "s"};
  auto old = std::make_unique<Listening>(address);
  old->io().Run([&] { old->acceptor().Stop(); });
  EXPECT_NE(0, access(address.unix_path.c_str(), F_OK));
  Listening next(address);
  old.reset();
  const auto caller = BlockingSocket::ConnectTo(address);
  EXPECT_TRUE(test::WaitUntil(10s, [&] { return next.count() == 1; }));
}

TEST(Acceptor, Stop_RejectsPendingConnections) {
  const auto acceptor = Acceptor::Listen(Loopback(), {}).value();
  auto caller = BlockingSocket::ConnectTo(acceptor->address());
  acceptor->Stop();
  EXPECT_EQ(caller.ReadAll(), "");
}

// While this object exists, the process can open at most `free` file descriptors. If `free` is 0,
// the process cannot open any, even if it closes some.
class FewDescriptors {
 public:
  explicit FewDescriptors(int free) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const Socket highest(dup(0));  // all lower numbers are in use
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(free > 0 ? highest.fd() + free : 3);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Acceptor, OutOfDescriptors_RejectsCallers_LogsOnceASecond_ThenAccepts) {
  if (kUnderSanitizer) GTEST_SKIP() << "UBSan itself needs descriptors";
  const test::CapturedLog log;
  Listening listening(Loopback());
  constexpr int kCallers = 60;
  std::vector<BlockingSocket> callers;
  // The callers' sockets need descriptors, too. They are created before descriptors run out, and
  // connect later.
  std::vector<Socket> unconnected;
  for (int i = 0; i < kCallers; ++i) unconnected.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
  const Endpoint endpoint = Endpoint::FromNumeric(listening.address()).value();
  const SteadyTime began = SteadyNow();
  {
    const FewDescriptors few(10);
    for (auto& it : unconnected) {
      ASSERT_EQ(0, connect(it.fd(), endpoint.get(), endpoint.size));
      callers.emplace_back(std::move(it));
    }
    // The loop handles the last connection after all others.
    int turned_away = 0;
    for (std::size_t i = 10; i < callers.size(); ++i) turned_away += callers[i].Read(1).empty();
    EXPECT_EQ(turned_away, kCallers - 10);
    EXPECT_LE(listening.count(), 10U);
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(SteadyNow() - began).count();
  listening.io().Run([] {});
  EXPECT_GE(log.CountLines("cannot accept connections"), 1) << log.text();
  EXPECT_LE(log.CountLines("cannot accept connections"), seconds) << log.text();

  const auto before = listening.count();
  const auto caller = BlockingSocket::ConnectTo(listening.address());
  EXPECT_TRUE(test::WaitUntil(10s, [&] { return listening.count() == before + 1; }));
}

// No descriptor is left, not even the one that the acceptor reserves to reject connections: another
// part of the process has taken it.
TEST(Acceptor, NoReservedDescriptor_WaitsInsteadOfSpinning) {
  if (kUnderSanitizer) GTEST_SKIP() << "UBSan itself needs descriptors";
  const test::CapturedLog log;
  Listening listening(Loopback());
  const Endpoint endpoint = Endpoint::FromNumeric(listening.address()).value();
  Socket caller(socket(AF_INET, SOCK_STREAM, 0));
  Socket second(socket(AF_INET, SOCK_STREAM, 0));
  {
    const FewDescriptors none(0);
    ASSERT_EQ(0, connect(caller.fd(), endpoint.get(), endpoint.size));
    ASSERT_EQ(0, connect(second.fd(), endpoint.get(), endpoint.size));
    ASSERT_TRUE(test::WaitUntil(10s, [&] {
      return listening.io().Run(
          [&] { return listening.io().loop().timers().NextWake() != SteadyTime::max(); });
    }));
    EXPECT_EQ(listening.count(), 0U);
  }
  EXPECT_TRUE(test::WaitUntil(10s, [&] { return listening.count() == 2; }));
}

}  // namespace
}  // namespace sluice::net
