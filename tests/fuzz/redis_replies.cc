// A `Node` that has logged in and waits for replies receives bytes, in one piece or in several. It
// hands back each check and each reset exactly once.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "store/redis/node.h"
#include "store/redis/settler.h"
#include "tests/support/manual_loop.h"

namespace sluice::redis {
namespace {

struct OneCheck final : StoreCheck {
  OneCheck(const char* key, const Limit& limit) {
    counters.push_back({.key = key, .limit = &limit, .verdict = {}});
  }
  void OnDecided() override { ++handed_back; }

  int handed_back = 0;
};

struct OneReset final : StoreReset {
  void OnReset() override { ++handed_back; }

  int handed_back = 0;
};

class FuzzedNode final : private NodeOwner {
 public:
  FuzzedNode()
      : settler_(loop_, metrics_, nullptr,
                 [this](PendingPtr pending) { node_->Submit(std::move(pending)); }),
        context_{.loop = loop_,
                 .owner = *this,
                 .settler = settler_,
                 .metrics = metrics_,
                 .access = {},
                 .options = {}},
        node_(std::make_unique<Node>(context_, Address{.host = "h", .port = 1, .unix_path = {}},
                                     server_)) {
    loop_.RunUntilIdle();
    Receive("+OK\r\n*1\r\n:1\r\n");
    reset_.keys = {"sluice:{a/b/c}:fixed_window:1s"};
    slot_.lease = Lease{.id = {}, .ttl = std::chrono::seconds(1)};
    const SteadyTime deadline = loop_.now() + std::chrono::seconds(1);
    for (StoreCheck* const check : {&window_, &bucket_, &slot_}) {
      check->deadline = check->last_deadline = deadline;
    }
    reset_.deadline = deadline;
    loop_.RunIteration([this] {
      for (StoreCheck* const check : {&window_, &bucket_, &slot_}) node_->Submit(*check);
      node_->Reset(reset_);
    });
  }

  void Receive(std::string_view bytes) {
    loop_.RunIteration([&] {
      if (loop_.wire() != nullptr && !loop_.wire()->closed()) loop_.wire()->Receive(bytes);
    });
  }

  void End() {
    loop_.RunIteration([this] {
      settler_.Stop();
      node_->Stop();
      loop_.DisposeLater(std::move(node_));
    });
    for (const OneCheck* const check : {&window_, &bucket_, &slot_}) {
      if (check->handed_back != 1) std::abort();
    }
    if (reset_.handed_back != 1) std::abort();
  }

 private:
  void OnRedirect(Node&, PendingPtr pending, std::string_view) override {
    pending->check->OnDecided();
  }
  void OnRedirect(Node&, StoreReset& reset, std::string_view) override { reset.OnReset(); }
  void OnRedirected(Node&) override {}
  void OnLayoutSuspect() override {}
  void OnUnreachable(const Node&, bool) override {}
  void OnReachable(const Node&) override {}
  std::string ProbeKey(const Node&) override { return "sluice:{probe}:fixed_window:1s"; }

  const Limit window_limit_ = FixedWindow{.limit = 10, .window = std::chrono::seconds(1)};
  const Limit bucket_limit_ = TokenBucket{};
  const Limit slot_limit_ = Concurrency{.limit = 10, .ttl = std::chrono::seconds(1)};
  OneCheck window_{"sluice:{a/b/c}:fixed_window:1s", window_limit_};
  OneCheck bucket_{"sluice:{a/b/c}:token_bucket:1s", bucket_limit_};
  OneCheck slot_{"sluice:{a/b/c}:concurrency", slot_limit_};
  OneReset reset_;
  MetricsRegistry metrics_;
  ServerState server_{"fuzzed", 1, metrics_};
  test::ManualLoop loop_;
  Settler settler_;
  const NodeContext context_;
  std::unique_ptr<Node> node_;
};

// The first byte determines the size of the pieces in which the rest arrives.
void Run(std::string_view input) {
  FuzzedNode node;
  const std::size_t piece =
      input.empty() || input[0] == 0 ? SIZE_MAX : static_cast<unsigned char>(input[0]);
  input.remove_prefix(input.empty() ? 0 : 1);
  while (!input.empty()) {
    node.Receive(input.substr(0, std::min(piece, net::Transport::kReadBytes)));
    input.remove_prefix(std::min({piece, net::Transport::kReadBytes, input.size()}));
  }
  node.End();
}

}  // namespace
}  // namespace sluice::redis

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  sluice::redis::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
