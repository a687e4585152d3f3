#include "tests/rpc/echo_methods.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <string>
#include <utility>

namespace sluice::test {
namespace {

using rpc::Call;
using rpc::Status;
using rpc::StatusCode;

class TestUnary : public rpc::UnaryHandler {
 public:
  TestUnary(net::Loop& loop, Seen& seen) : loop_(loop), seen_(seen) { ++seen.handlers; }

  void Serve(const Call& call, std::string_view request) final {
    ++seen_.served;
    if (net::Loop::Current() != &loop_) ++seen_.wrong_thread;
    Answer(call, request);
  }
  void OnCancel() override { ++seen_.canceled; }

 protected:
  net::Loop& loop() { return loop_; }

 private:
  virtual void Answer(const Call& call, std::string_view request) = 0;

  net::Loop& loop_;
  Seen& seen_;
};

struct Echo final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& /*call*/, std::string_view request) override { Finish(request); }
};

struct Fail final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& /*call*/, std::string_view request) override {
    Finish({.code = StatusCode::kFailedPrecondition, .message = std::string(request)});
  }
};

struct Metadata final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& call, std::string_view request) override {
    if (const auto value = call.Metadata(request)) return Finish(*value);
    Finish({.code = StatusCode::kNotFound, .message = "the header is absent or repeated"});
  }
};

struct TimeLeft final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& call, std::string_view /*request*/) override {
    if (call.deadline() == SteadyTime::max()) return Finish("never");
    const auto left = call.deadline() - call.received();
    Finish(fmt::to_string(std::chrono::round<std::chrono::seconds>(left).count()));
  }
};

struct PeerName final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& call, std::string_view /*request*/) override {
    Finish(call.peer().address);
  }
};

struct Identities final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& call, std::string_view /*request*/) override {
    const net::Peer& peer = call.peer();
    Finish(fmt::format("{} {}", peer.tls ? "tls" : "plain", fmt::join(peer.identities, ",")));
  }
};

struct Later final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& /*call*/, std::string_view request) override {
    loop().Post([this, request] { Finish(request); });
  }
};

struct Hold final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& /*call*/, std::string_view /*request*/) override {}
  void OnCancel() override {
    TestUnary::OnCancel();
    Finish({.code = StatusCode::kCancelled, .message = "held until then"});
  }
};

struct Never final : TestUnary {
  using TestUnary::TestUnary;
  void Answer(const Call& /*call*/, std::string_view /*request*/) override {}
};

class TestStream : public rpc::StreamHandler {
 public:
  TestStream(net::Loop& loop, Seen& seen) : loop_(loop), seen_(seen) { ++seen.handlers; }

  void OnStart(const Call& /*call*/) override {
    ++seen_.served;
    open_ = true;
    if (net::Loop::Current() != &loop_) ++seen_.wrong_thread;
  }
  void OnMessage(std::string_view message) final {
    ++seen_.received;
    Take(message);
  }
  void OnHalfClose() override {
    ++seen_.half_closed;
    End({});
  }
  void OnWritable() override { ++seen_.writable; }
  void OnDrain() override {
    ++seen_.drained;
    End({.code = StatusCode::kUnavailable, .message = "the server is stopping"});
  }
  void OnCancel() override {
    ++seen_.canceled;
    End({.code = StatusCode::kCancelled});
  }

 protected:
  net::Loop& loop() { return loop_; }
  bool open() const { return open_; }
  Seen& seen() { return seen_; }

  void End(const Status& status) {
    if (std::exchange(open_, false)) Finish(status);
  }

 private:
  virtual void Take(std::string_view message) = 0;

  net::Loop& loop_;
  Seen& seen_;
  bool open_ = false;
};

struct EchoStream final : TestStream {
  using TestStream::TestStream;
  void Take(std::string_view message) override { Send(message); }
};

class Count final : public TestStream {
 public:
  using TestStream::TestStream;
  void OnStart(const Call& call) override {
    count_ = 0;
    TestStream::OnStart(call);
  }
  void Take(std::string_view /*message*/) override { ++count_; }
  void OnHalfClose() override {
    Send(fmt::to_string(count_));
    TestStream::OnHalfClose();
  }

 private:
  int count_ = 0;
};

struct Sized final : TestStream {
  using TestStream::TestStream;
  void Take(std::string_view message) override {
    std::size_t size = 0;
    std::from_chars(message.data(), message.data() + message.size(), size);
    Send(std::string(size, 's'));
  }
};

struct First final : TestStream {
  using TestStream::TestStream;
  void Take(std::string_view /*message*/) override { End({}); }
};

struct Slow final : TestStream {
  using TestStream::TestStream;
  void Take(std::string_view message) override {
    Send(message);
    SetReading(false);
    loop().Post([this] {
      if (open()) SetReading(true);
    });
  }
};

struct Deaf final : TestStream {
  using TestStream::TestStream;
  void OnStart(const Call& call) override {
    TestStream::OnStart(call);
    SetReading(false);
  }
  void Take(std::string_view /*message*/) override {}
};

struct Once final : TestStream {
  using TestStream::TestStream;
  void Take(std::string_view message) override {
    Send(message);
    SetReading(false);
  }
};

struct Refuse final : TestStream {
  using TestStream::TestStream;
  void OnStart(const Call& call) override {
    TestStream::OnStart(call);
    End({.code = StatusCode::kPermissionDenied, .message = "not you"});
  }
  void Take(std::string_view /*message*/) override {}
};

struct NeverEnds final : TestStream {
  using TestStream::TestStream;
  void OnHalfClose() override { ++seen().half_closed; }
  void OnDrain() override { ++seen().drained; }
  void OnCancel() override { ++seen().canceled; }
  void Take(std::string_view /*message*/) override {}
};

template <typename Handler>
rpc::Method Unary(std::string path, Seen& seen) {
  return {.path = std::move(path),
          .unary = [&seen](net::Loop& loop) { return std::make_unique<Handler>(loop, seen); },
          .stream = nullptr};
}

template <typename Handler>
rpc::Method Stream(std::string path, Seen& seen) {
  return {.path = std::move(path), .unary = nullptr, .stream = [&seen](net::Loop& loop) {
            return std::make_unique<Handler>(loop, seen);
          }};
}

}  // namespace

rpc::Methods EchoMethods(Seen& seen) {
  return {Unary<Echo>("/test.Unary/Echo", seen),
          Unary<Fail>("/test.Unary/Fail", seen),
          Unary<Metadata>("/test.Unary/Metadata", seen),
          Unary<TimeLeft>("/test.Unary/TimeLeft", seen),
          Unary<PeerName>("/test.Unary/Peer", seen),
          Unary<Identities>("/test.Unary/Identities", seen),
          Unary<Later>("/test.Unary/Later", seen),
          Unary<Hold>("/test.Unary/Hold", seen),
          Unary<Never>("/test.Unary/Never", seen),
          Stream<EchoStream>("/test.Stream/Echo", seen),
          Stream<Count>("/test.Stream/Count", seen),
          Stream<Sized>("/test.Stream/Sized", seen),
          Stream<First>("/test.Stream/First", seen),
          Stream<Slow>("/test.Stream/Slow", seen),
          Stream<Deaf>("/test.Stream/Deaf", seen),
          Stream<Once>("/test.Stream/Once", seen),
          Stream<Refuse>("/test.Stream/Refuse", seen),
          Stream<NeverEnds>("/test.Stream/Never", seen)};
}

}  // namespace sluice::test
