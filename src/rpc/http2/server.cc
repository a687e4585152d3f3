#include "rpc/http2/server.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "net/acceptor.h"
#include "net/tls_transport.h"
#include "rpc/http2/shard.h"

namespace sluice::rpc::http2 {
namespace {

constexpr net::Alpn kAlpn{.protocol = "\x02h2", .required = true};

// How many connections may be posted to loops when there is no place left. Without this bound,
// those that wait for a slow loop could use up the process' open files.
constexpr std::size_t kMostArriving = 64;

// After this time without calls, callers count as gone.
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
    // Waits until the loops have destroyed the closed connections.
    threads_.RunOnEach([](net::EpollLoop&) {});
  }

 private:
  // Callers that watch the health service leave on their own. Until they do, their calls are still
  // served. Streams do not delay this step.
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

  // An accepted connection that is not yet added to a shard.
  struct Arrival {
    net::Socket socket;
    net::IoThreads::Place place;
    bool has_place = true;        // among the server's connections
    std::size_t turned_away = 0;  // number of shards that could not make room
  };

  // Runs on io-0.
  void OnConnection(net::Socket socket) {
    const bool has_place = TryAdd();
    if (!has_place && arriving_ >= kMostArriving) {
      return shared_->metrics.Count(Refusal::kConnections);
    }
    Deliver(
        {.socket = std::move(socket), .place = threads_.PlaceConnection(), .has_place = has_place});
  }

  bool TryAdd() { return shared_->connections.TryAdd(shared_->options.max_connections); }

  // Tasks must be copyable, so a shared pointer holds the arrival.
  void Deliver(Arrival arrival) {
    net::EpollLoop& loop = arrival.place.loop();
    if (&loop == net::Loop::Current()) return Add(std::move(arrival));
    ++arriving_;
    loop.Post([this, posted = std::make_shared<Arrival>(std::move(arrival))] {
      --arriving_;
      Add(std::move(*posted));
    });
  }

  // Runs on the loop of the arrival's place.
  void Add(Arrival arrival) {
    net::EpollLoop& loop = arrival.place.loop();
    Shard& shard = *shards_[loop.index()];
    bool has_place = arrival.has_place || TryAdd();
    if (!has_place && shard.MakeRoom(arrival.socket.Remote().Network())) has_place = TryAdd();
    if (!has_place && arrival.turned_away + 1 < threads_.size()) return PassOn(std::move(arrival));
    if (!has_place) shared_->metrics.Count(Refusal::kConnections);
    net::TransportPtr transport = loop.Adopt(std::move(arrival.socket), net::FlushStage::kCallers);
    if (shared_->options.tls != nullptr) {
      transport = net::AcceptTls(loop, std::move(transport), *shared_->options.tls, kAlpn);
    }
    shard.AddConnection(std::move(transport), std::move(arrival.place), has_place);
  }

  void PassOn(Arrival arrival) {
    const std::size_t next = (arrival.place.loop().index() + 1) % threads_.size();
    Deliver({.socket = std::move(arrival.socket),
             .place = threads_.PlaceOn(next),
             .has_place = false,
             .turned_away = arrival.turned_away + 1});
  }

  LoopLoads CompareLoads(const net::EpollLoop& loop) {
    LoopLoads loads{.own = static_cast<double>(loop.load()), .least_of_others = 1024};
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
  std::vector<std::unique_ptr<Shard>> shards_;  // by loop index
  std::atomic<std::size_t> arriving_ = 0;       // posted to a loop
};

}  // namespace

Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options, const Times& times) {
  auto acceptor = net::Acceptor::Listen(options.address, {.socket_mode = options.socket_mode});
  if (!acceptor) return acceptor.error();
  return std::unique_ptr<Server>(std::make_unique<NgHttp2Server>(
      threads, std::move(*acceptor),
      std::make_unique<SharedState>(std::move(methods), options, times)));
}

}  // namespace sluice::rpc::http2
