// After a client's preface, bytes arrive in one piece or in several. Nothing crashes. When the
// connection is closed, no call is left.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "rpc/http2/connection.h"
#include "rpc/http2/shard.h"
#include "tests/support/http2_frame.h"
#include "tests/support/manual_loop.h"

namespace sluice::rpc::http2 {
namespace {

class EchoOnce final : public UnaryHandler {
  void Serve(const Call&, std::string_view request) override { Finish(request); }
};

class EchoAll final : public StreamHandler {
  void OnStart(const Call&) override {}
  void OnMessage(std::string_view message) override { Send(message); }
  void OnHalfClose() override { Finish(Status{}); }
  void OnDrain() override { Finish({.code = StatusCode::kUnavailable, .message = "stopping"}); }
  void OnCancel() override { Finish(Status{}); }
};

Methods EchoMethods() {
  return {{.path = "/e.E/Once",
           .unary = [](net::Loop&) { return std::make_unique<EchoOnce>(); },
           .stream = nullptr},
          {.path = "/e.E/All", .unary = nullptr, .stream = [](net::Loop&) {
             return std::make_unique<EchoAll>();
           }}};
}

void Run(std::string_view input) {
  test::ManualLoop loop;
  ServerOptions options;
  options.max_message_bytes = 4096;
  options.max_calls = 64;
  SharedState shared{.methods = EchoMethods(), .options = options, .times = {}};
  {
    Shard shard(shared, loop);
    net::ConnectionCount count(1);
    net::LoopConnections connections(loop, count, [] {});
    auto* const wire = new test::ManualLoop::Wire(loop, net::FlushStage::kCallers);
    loop.RunIteration([&] {
      count.TryAdd();
      connections.Add(MakeConnection(
          shard, net::TransportPtr(wire, net::TransportDeleter{.loop = &loop}), true));
      wire->Receive(test::kHttp2Preface +
                    test::Http2Frame{.type = test::Http2Frame::kSettings}.Bytes());
    });
    // The first byte determines the size of the pieces in which the rest arrives.
    const std::size_t piece =
        input.empty() || input[0] == 0 ? SIZE_MAX : static_cast<unsigned char>(input[0]);
    input.remove_prefix(input.empty() ? 0 : 1);
    while (!input.empty() && loop.wire() != nullptr && !loop.wire()->closed()) {
      loop.RunIteration([&] { wire->Receive(input.substr(0, piece)); },
                        std::chrono::microseconds(100));
      input.remove_prefix(std::min(piece, input.size()));
    }
    loop.RunIteration([&] { connections.CloseAll(); });
    loop.RunIteration();
  }
  if (shared.free_calls != 64 || shared.buffered_bytes != 0) std::abort();
}

}  // namespace
}  // namespace sluice::rpc::http2

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  sluice::rpc::http2::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
