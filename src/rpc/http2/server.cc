#include "rpc/http2/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "net/acceptor.h"
#include "net/tls_transport.h"
#include "rpc/http2/shard.h"

namespace sluice::rpc::http2 {
namespace {

// So long without a call: the callers have left.
constexpr std::chrono::milliseconds kQuiet(50);

class NgHttp2Server final : public Server {
 public:
  NgHttp2Server(net::IoThreads& threads, std::unique_ptr<net::Acceptor> acceptor,
                std::unique_ptr<SharedState> shared)
      : threads_(threads), acceptor_(std::move(acceptor)), shared_(std::move(shared)) {
    shards_.resize(threads.size());
    threads_.RunOnEach([this](net::EpollLoop& loop) {
      const auto compare = [this, &loop] { return CompareLoads(loop); };
      shards_[loop.index()] = std::make_unique<Shard>(
          *shared_, loop, threads_.size(),
          threads_.size() > 1 ? Shard::CompareLoads(compare) : Shard::CompareLoads());
    });
    threads_.RunOn(0, [this](net::EpollLoop& loop) {
      acceptor_->Start(loop, [this](net::Socket socket) { OnConnection(std::move(socket)); });
    });
  }

  ~NgHttp2Server() override {
    Stop(Duration(0));
    threads_.RunOnEach([this](net::EpollLoop& loop) { shards_[loop.index()].reset(); });
  }

  const Address& address() const override { return acceptor_->address(); }

  void Stop(Duration drain) override {
    const SteadyTime deadline = SteadyNow() + drain;
    WaitUntilQuiet(deadline - drain / 2);
    threads_.RunOn(0, [this](net::EpollLoop&) { acceptor_->Stop(); });
    if (drain.count() > 0) {
      threads_.RunOnEach([this](net::EpollLoop& loop) { shards_[loop.index()]->Drain(); });
      shared_->connections.WaitForNone(deadline);
    }
    threads_.RunOnEach([this](net::EpollLoop& loop) { shards_[loop.index()]->CloseConnections(); });
    // What was closed is destroyed at the end of its turn.
    threads_.RunOnEach([](net::EpollLoop&) {});
  }

 private:
  // Callers that heed the health service leave by themselves; those that do not know yet are served
  // meanwhile. Streams and the calls that they carry do not delay this.
  void WaitUntilQuiet(SteadyTime deadline) {
    Shard::UnaryCalls before = UnaryCalls();
    while (SteadyNow() < deadline) {
      if (shared_->connections.WaitForNone(std::min(deadline, SteadyNow() + kQuiet))) return;
      const Shard::UnaryCalls now = UnaryCalls();
      if (now.begun == before.begun && now.begun == now.ended) return;
      before = now;
    }
  }

  Shard::UnaryCalls UnaryCalls() {
    Shard::UnaryCalls sum;
    threads_.RunOnEach([&](net::EpollLoop& loop) {
      sum.begun += shards_[loop.index()]->unary_calls().begun;
      sum.ended += shards_[loop.index()]->unary_calls().ended;
    });
    return sum;
  }

  // On io-0. A task must be copyable, so the socket and its place travel in a shared pointer.
  void OnConnection(net::Socket socket) {
    if (!shared_->connections.TryAdd(shared_->options.max_connections)) {
      return shared_->metrics.Count(Refusal::kConnections);
    }
    using Arrival = std::pair<net::Socket, net::IoThreads::Place>;
    const auto arrival = std::make_shared<Arrival>(std::move(socket), threads_.PlaceConnection());
    net::EpollLoop& loop = arrival->second.loop();
    loop.Post([this, arrival, &loop] {
      net::TransportPtr transport =
          loop.Adopt(std::move(arrival->first), net::FlushStage::kCallers);
      if (shared_->options.tls != nullptr) {
        transport = net::AcceptTls(loop, std::move(transport), *shared_->options.tls);
      }
      shards_[loop.index()]->AddConnection(std::move(transport), std::move(arrival->second));
    });
  }

  Loads CompareLoads(const net::EpollLoop& loop) {
    Loads loads{.own = static_cast<double>(loop.load()), .least_of_others = 1024};
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      if (i == loop.index()) continue;
      const auto load = static_cast<double>(threads_.loop(i).load());
      loads.mean_of_others += load / static_cast<double>(threads_.size() - 1);
      loads.least_of_others = std::min(loads.least_of_others, load);
    }
    return loads;
  }

  net::IoThreads& threads_;
  const std::unique_ptr<net::Acceptor> acceptor_;
  const std::unique_ptr<SharedState> shared_;
  std::vector<std::unique_ptr<Shard>> shards_;  // by the index of their loop
};

}  // namespace

Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options, const Times& times) {
  auto acceptor =
      net::Acceptor::Listen(options.address, {.private_socket = options.private_socket});
  if (!acceptor) return acceptor.error();
  return std::unique_ptr<Server>(std::make_unique<NgHttp2Server>(
      threads, std::move(*acceptor),
      std::make_unique<SharedState>(std::move(methods), options, times)));
}

}  // namespace sluice::rpc::http2
