// One loop of a server. The test controls the peers' bytes and addresses, and the time. The
// server's methods:
//
//   /t/Source  stream. For each message N, sends N bytes. Ends at the half-close.
//   /t/Probe   the same, as a probe
//
// Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/http2/connection.h"
#include "rpc/http2/shard.h"
#include "tests/rpc/http2/raw_client.h"
#include "tests/support/manual_loop.h"

namespace sluice::test {

class Source final : public rpc::StreamHandler {
 public:
  explicit Source(int& alive) : alive_(alive) { ++alive_; }
  ~Source() override { --alive_; }

  void OnStart(const rpc::Call&) override {}
  void OnMessage(std::string_view message) override {
    Send(std::string(std::stoul(std::string(message)), 'x'));
  }
  void OnHalfClose() override { Finish({}); }
  void OnDrain() override { Finish({}); }
  void OnCancel() override { Finish({}); }

 private:
  int& alive_;
};

class SimulatedPeers : public testing::Test {
 protected:
  using Wire = ManualLoop::Wire;
  static constexpr int kRefused = 7, kCancel = 8;

  explicit SimulatedPeers(const rpc::http2::ServerOptions& options)
      : shared_{.methods = Methods(), .options = options, .times = {}} {}
  ~SimulatedPeers() override {
    loop_.RunIteration([this] { connections_.CloseAll(); });
    loop_.RunIteration();
    EXPECT_EQ(shared_.buffered_bytes, 0U);
  }

  // Opens a connection from `network`. Its streams begin with a window of `window` bytes.
  Wire& Connect(const std::string& network, std::uint32_t window = 0, bool has_place = true) {
    auto* const wire = new Wire(loop_, net::FlushStage::kCallers, {.network = network});
    loop_.RunIteration([&] {
      if (has_place) count_.TryAdd();
      connections_.Add(rpc::http2::MakeConnection(
          shard_, net::TransportPtr(wire, net::TransportDeleter{.loop = &loop_}), has_place));
      const std::string setting = BigEndian(4, 2) + BigEndian(window, 4);
      wire->Receive(kHttp2Preface +
                    Http2Frame{.type = Http2Frame::kSettings, .payload = setting}.Bytes() +
                    WindowOf(0, 1U << 30));
    });
    return *wire;
  }

  void Send(Wire& wire, const std::string& bytes, Duration later = {}) {
    loop_.RunIteration([&] { wire.Receive(bytes); }, later);
    Note(wire);
  }

  // Closes a connection to make room for a connection from `network`. Returns false if none may be
  // closed.
  bool MakesRoomFor(const std::string& network) {
    bool made = false;
    loop_.RunIteration([&] { made = connections_.MakeRoom(network); });
    return made;
  }

  void Pass(Wire& wire, std::chrono::seconds time) {
    for (; time.count() > 0; --time) loop_.RunIteration({}, std::chrono::seconds(1));
    Note(wire);
  }

  static std::string WindowOf(std::uint32_t stream, std::uint32_t bytes) {
    return Http2Frame{
        .type = Http2Frame::kWindowUpdate, .stream = stream, .payload = BigEndian(bytes, 4)}
        .Bytes();
  }

  // The HEADERS frame that begins a call.
  static std::string Call(std::uint32_t stream, std::string_view path, const Headers& more = {}) {
    return Http2Frame{.type = Http2Frame::kHeaders,
                      .stream = stream,
                      .payload = HeaderBlock(RequestHeaders(path, more)),
                      .flags = Http2Frame::kEndHeaders}
        .Bytes();
  }

  // A call's request for `size` bytes. The call stays open.
  static std::string Ask(std::uint32_t stream, std::size_t size) {
    return Http2Frame{.stream = stream, .payload = Framed(std::to_string(size))}.Bytes();
  }

  static std::string Reset(std::uint32_t stream) {
    return Http2Frame{
        .type = Http2Frame::kResetStream, .stream = stream, .payload = BigEndian(8, 4)}
        .Bytes();
  }

  // The error of the server's RST_STREAM, or nullopt if there was none.
  std::optional<int> ResetOf(Wire& wire, std::uint32_t stream) {
    const auto& resets = resets_[&wire];
    const auto found = resets.find(stream);
    return found == resets.end() ? std::nullopt : std::optional(found->second);
  }

  // Begins `count` calls, which stay open. Returns how many were not refused.
  int Open(Wire& wire, int count, const Headers& more = {}) {
    std::uint32_t& next = next_stream_[&wire];
    const std::uint32_t first = 2 * next + 1;
    for (int i = 0; i < count; ++i) Send(wire, Call(2 * next++ + 1, "/t/Source", more));
    int open = 0;
    for (std::uint32_t i = first; i < 2 * next + 1; i += 2) open += ResetOf(wire, i) ? 0 : 1;
    return open;
  }

  int handlers_ = 0;  // alive
  ManualLoop loop_;
  rpc::http2::SharedState shared_;
  rpc::http2::Shard shard_{shared_, loop_};
  net::ConnectionCount count_{SIZE_MAX};
  net::LoopConnections connections_{loop_, count_, [] {}};

 private:
  rpc::Methods Methods() {
    const auto make = [this](net::Loop&) { return std::make_unique<Source>(handlers_); };
    return {{.path = "/t/Source", .unary = nullptr, .stream = make},
            {.path = "/t/Probe", .unary = nullptr, .stream = make, .is_probe = true}};
  }

  void Note(Wire& wire) {
    std::string sent = wire.TakeSent();
    while (const auto frame = Http2Frame::Take(sent)) {
      if (frame->type != Http2Frame::kResetStream) continue;
      resets_[&wire][frame->stream] = static_cast<unsigned char>(frame->payload.back());
    }
  }

  std::map<Wire*, std::map<std::uint32_t, int>> resets_;
  std::map<Wire*, std::uint32_t> next_stream_;
};

}  // namespace sluice::test
