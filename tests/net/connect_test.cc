// Connecting by name, with a fake name service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/notification.h"
#include "net/acceptor.h"
#include "tests/net/test_protocol.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Duration kTimeout = 10s;

// A name service that answers when the test allows it. If a lookup outlives the test, the state
// does, too.
class SlowNames {
 public:
  Resolver::Lookup lookup() {
    return [state = state_](const Address&) -> Result<std::vector<Endpoint>> {
      ++state->asked;
      state->open.Wait();
      return state->endpoints;
    };
  }

  // REQUIRES: no lookup has begun
  void Add(const Address& address) {
    state_->endpoints.push_back(Endpoint::FromNumeric(address).value());
  }
  int asked() const { return state_->asked; }
  void Answer() { state_->open.Notify(); }

 private:
  struct State {
    Notification open;
    std::atomic<int> asked = 0;
    std::vector<Endpoint> endpoints;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

Address Loopback(std::uint16_t port) {
  return {.host = "127.0.0.1", .port = port, .unix_path = {}};
}

// A bound port on which no process listens.
class DeadPort {
 public:
  DeadPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const Endpoint any = Endpoint::FromNumeric(Loopback(0)).value();
    EXPECT_EQ(0, bind(socket_.fd(), any.get(), any.size));
    const std::string text = socket_.Local().ToString();
    address_ = Address::Parse(text).value();
  }
  const Address& address() const { return address_; }

 private:
  const Socket socket_;
  Address address_;
};

// One attempt and its result.
class Attempt {
 public:
  Attempt(OneIoThread& io, const Address& address, Duration timeout = kTimeout) : io_(io) {
    io_.Run([&] {
      attempt_ = io_.loop().Connect(address, timeout, FlushStage::kStore,
                                    [this](Result<TransportPtr> result) {
                                      ++calls_;
                                      attempt_.reset();  // allowed within the callback
                                      if (result) {
                                        transport_ = std::move(result).value();
                                      } else {
                                        error_ = result.error().message;
                                      }
                                    });
    });
  }
  ~Attempt() {
    io_.Run([&] {
      attempt_.reset();
      transport_.reset();
    });
  }

  void GiveUp() {
    io_.Run([&] { attempt_.reset(); });
  }
  bool Done() {
    return test::WaitUntil(20s, [&] { return calls() > 0; });
  }
  int calls() {
    return io_.Run([&] { return calls_; });
  }
  bool connected() {
    return io_.Run([&] { return transport_ != nullptr; });
  }
  std::string error() {
    return io_.Run([&] { return error_; });
  }

 private:
  OneIoThread& io_;
  std::unique_ptr<ConnectAttempt> attempt_;
  TransportPtr transport_;
  std::string error_;
  int calls_ = 0;
};

TEST(Connect, NobodyListens_FailsWithTheCause) {
  OneIoThread io;
  const DeadPort dead;
  Attempt attempt(io, dead.address());
  ASSERT_TRUE(attempt.Done());
  EXPECT_EQ(attempt.error(), "Connection refused");
}

TEST(Connect, UnixSocket_ConnectsOrFailsWithTheCause) {
  OneIoThread io;
  const test::TempDir dir;
  const Address address{.host = {}, .unix_path = dir.path() / "s"};
  Attempt before(io, address);
  ASSERT_TRUE(before.Done());
  EXPECT_EQ(before.error(), "No such file or directory");
  const auto acceptor = Acceptor::Listen(address, {}).value();
  Attempt after(io, address);
  ASSERT_TRUE(after.Done());
  EXPECT_TRUE(after.connected());
  Attempt too_long(io, {.host = {}, .unix_path = "/" + std::string(200, 'x')});
  ASSERT_TRUE(too_long.Done());
  EXPECT_THAT(too_long.error(), HasSubstr("at most 107 bytes"));
}

TEST(Connect, FirstAddressDead_TriesTheNext) {
  const auto acceptor = Acceptor::Listen(Loopback(0), {}).value();
  const DeadPort dead;
  SlowNames names;
  names.Add(dead.address());
  names.Add(acceptor->address());
  names.Answer();
  OneIoThread io(names.lookup());
  Attempt attempt(io, {.host = "redis.test", .unix_path = {}});
  ASSERT_TRUE(attempt.Done());
  EXPECT_TRUE(attempt.connected()) << attempt.error();
}

// A listener whose queue is full does not answer, because the kernel drops further connections.
TEST(Connect, AddressWithoutAnswer_TriesTheNextAfterTheTimeout) {
  const Socket silent(socket(AF_INET, SOCK_STREAM, 0));
  const Endpoint any = Endpoint::FromNumeric(Loopback(0)).value();
  ASSERT_EQ(0, bind(silent.fd(), any.get(), any.size));
  ASSERT_EQ(0, listen(silent.fd(), 0));
  const Address silent_address = Address::Parse(silent.Local().ToString()).value();
  const BlockingSocket queued = BlockingSocket::ConnectTo(silent_address);
  const auto acceptor = Acceptor::Listen(Loopback(0), {}).value();
  SlowNames names;
  names.Add(silent_address);
  names.Add(acceptor->address());
  names.Answer();
  OneIoThread io(names.lookup());
  Attempt attempt(io, {.host = "redis.test", .unix_path = {}}, 50ms);
  ASSERT_TRUE(attempt.Done());
  EXPECT_TRUE(attempt.connected()) << attempt.error();

  Attempt alone(io, silent_address, 50ms);
  ASSERT_TRUE(alone.Done());
  EXPECT_EQ(alone.error(), "no answer in time");
}

// The connect timeout begins when the name is resolved.
TEST(Connect, SlowNameService_ConnectsWhenItAnswers) {
  const auto acceptor = Acceptor::Listen(Loopback(0), {}).value();
  SlowNames names;
  names.Add(acceptor->address());
  OneIoThread io(names.lookup());
  Attempt attempt(io, {.host = "redis.test", .unix_path = {}}, 30ms);
  ASSERT_TRUE(test::WaitUntil(10s, [&] { return names.asked() == 1; }));
  const SteadyTime long_after = SteadyNow() + 300ms;  // ten times the timeout
  ASSERT_TRUE(test::WaitUntil(10s, [&] { return SteadyNow() > long_after; }));
  EXPECT_EQ(attempt.calls(), 0);
  names.Answer();
  ASSERT_TRUE(attempt.Done());
  EXPECT_TRUE(attempt.connected()) << attempt.error();
  EXPECT_EQ(names.asked(), 1);
}

TEST(Connect, AttemptDestroyedDuringTheLookup_IsNotCalledBack) {
  const auto acceptor = Acceptor::Listen(Loopback(0), {}).value();
  SlowNames names;
  names.Add(acceptor->address());
  OneIoThread io(names.lookup());
  Attempt given_up(io, {.host = "redis.test", .unix_path = {}});
  ASSERT_TRUE(test::WaitUntil(10s, [&] { return names.asked() == 1; }));
  given_up.GiveUp();
  names.Answer();
  // Lookups run one after another, so the first has ended when the second ends.
  Attempt next(io, {.host = "redis.test", .unix_path = {}});
  ASSERT_TRUE(next.Done());
  EXPECT_EQ(given_up.calls(), 0);
}

TEST(Connect, NameServiceFails_FailsWithItsCause) {
  OneIoThread io([](const Address&) -> Result<std::vector<Endpoint>> {
    return Error{ErrorCode::kUnavailable, "the name is not known"};
  });
  Attempt attempt(io, {.host = "redis.test", .unix_path = {}});
  ASSERT_TRUE(attempt.Done());
  EXPECT_EQ(attempt.error(), "the name is not known");
}

TEST(Connect, NameWithoutAddress_Fails) {
  SlowNames names;
  names.Answer();
  OneIoThread io(names.lookup());
  Attempt attempt(io, {.host = "redis.test", .unix_path = {}});
  ASSERT_TRUE(attempt.Done());
  EXPECT_EQ(attempt.error(), "the name has no address");
}

// A server that stops must not wait for a name service that does not answer.
TEST(Resolver, DestroyedInALookup_DoesNotWaitForIt) {
  SlowNames names;
  {
    OneIoThread io(names.lookup());
    Attempt attempt(io, {.host = "redis.test", .unix_path = {}});
    ASSERT_TRUE(test::WaitUntil(10s, [&] { return names.asked() == 1; }));
  }
  names.Answer();
}

TEST(Resolver, SystemLookup_FindsLocalhost) {
  const auto found = Resolver::SystemLookup({.host = "localhost", .port = 80, .unix_path = {}});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->front().ToString(), ::testing::AnyOf("127.0.0.1:80", "[::1]:80"));
}

}  // namespace
}  // namespace sluice::net
