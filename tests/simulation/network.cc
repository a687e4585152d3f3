#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

namespace sluice::simulation {

SteadyTime Link::NextArrival(SteadyTime& arrived) {
  const SteadyTime next = world_.now() + world_.Between(options_.least_delay, options_.most_delay);
  return arrived = std::max(arrived, next);
}

void Link::Send(std::string_view bytes, SteadyTime& arrived, const Deliver& deliver) {
  while (!bytes.empty()) {
    std::size_t size = std::min<std::size_t>(bytes.size(), net::Transport::kReadBytes);
    if (options_.splits)
      size = std::min(size, 1 + world_.Below(std::max<std::size_t>(size / 8, 64)));
    world_.At(NextArrival(arrived),
              [self = shared_from_this(), deliver, piece = std::string(bytes.substr(0, size))] {
                deliver(*self, piece);
              });
    bytes.remove_prefix(size);
  }
}

void Link::ToRemote(std::string_view bytes) {
  Send(bytes, at_remote_, [](Link& link, std::string_view piece) {
    if (link.remote_ != nullptr) link.remote_->Receive(piece);
  });
}

void Link::ToWire(std::string_view bytes) {
  Send(bytes, at_wire_, [](Link& link, std::string_view piece) {
    if (link.early_) link.early_->append(piece);
    if (link.wire_ != nullptr) link.wire_->Receive(piece);
  });
}

void Link::Join(Wire* wire) {
  wire_ = wire;
  const auto early = std::exchange(early_, std::nullopt);
  if (early && !early->empty()) wire_->Receive(*early);
}

void Link::Cut() {
  const auto self = shared_from_this();
  if (wire_ != nullptr) std::exchange(wire_, nullptr)->OnClosed(net::Protocol::Closure::kLost);
  if (remote_ != nullptr) std::exchange(remote_, nullptr)->OnClosed();
}

void Link::CloseWire() {
  wire_ = nullptr;
  world_.At(NextArrival(at_remote_), [self = shared_from_this()] {
    if (self->remote_ != nullptr) std::exchange(self->remote_, nullptr)->OnClosed();
  });
}

void Link::CloseRemote() {
  remote_ = nullptr;
  world_.At(NextArrival(at_wire_), [self = shared_from_this()] {
    if (self->wire_ == nullptr) return;
    std::exchange(self->wire_, nullptr)->OnClosed(net::Protocol::Closure::kLost);
  });
}

SimulatedLoop::SimulatedLoop(World& world, Connector connector)
    : Loop(0, world.Below(UINT64_MAX)), world_(world), connector_(std::move(connector)) {
  Run({});
}

SimulatedLoop::~SimulatedLoop() {
  SetCurrent(this);
  ready_.clear();
  DropAll();
  SetCurrent(nullptr);
}

void SimulatedLoop::Stall(Duration duration) {
  stalled_until_ = std::max(stalled_until_, world_.now() + duration);
}

void SimulatedLoop::Deliver(Task task) {
  ready_.push_back(std::move(task));
  Wake(world_.now() + std::chrono::nanoseconds(1));
}

void SimulatedLoop::Run(const Task& task) { RunIteration(task); }

void SimulatedLoop::Wake(SteadyTime at) {
  if (at >= next_turn_) return;
  next_turn_ = at;
  world_.At(at, [this, at, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || next_turn_ != at) return;
    next_turn_ = SteadyTime::max();
    if (world_.now() < stalled_until_) return Wake(stalled_until_);
    RunIteration({});
  });
}

void SimulatedLoop::RunIteration(const Task& work) {
  Loop* const before = Current();
  SetCurrent(this);
  BeginIteration(world_.now());
  if (work) work();
  for (Task& task : std::exchange(ready_, {})) task();
  EndIteration();
  SetCurrent(before);
  if (!ready_.empty()) Wake(world_.now() + std::chrono::nanoseconds(1));
  if (timers().NextWake() != SteadyTime::max()) Wake(timers().NextWake());
}

namespace {

struct Attempt final : net::ConnectAttempt {
  const std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<net::ConnectAttempt> SimulatedLoop::Connect(const Address& address,
                                                            Duration connect_timeout,
                                                            net::FlushStage stage,
                                                            net::ConnectDone done) {
  auto attempt = std::make_unique<Attempt>();
  const auto link = connector_(address);
  const bool answers = link != nullptr;
  const Duration after =
      answers ? world_.Between(Duration(0), std::chrono::milliseconds(1)) : connect_timeout;
  world_.After(after, [this, link, answers, stage, done = std::move(done),
                       loop = std::weak_ptr(alive_), alive = std::weak_ptr(attempt->alive)] {
    if (loop.expired()) return;
    Deliver([this, link, answers, stage, done, alive] {
      if (alive.expired()) {
        if (link) link->Cut();
      } else if (!answers) {
        done(Error{ErrorCode::kUnavailable, "connection timed out"});
      } else if (net::TransportPtr wire = Carry(link, stage); link->open()) {
        done(std::move(wire));
      } else {
        done(Error{ErrorCode::kUnavailable, "connection refused"});
      }
    });
  });
  return attempt;
}

net::TransportPtr SimulatedLoop::Carry(std::shared_ptr<Link> link, net::FlushStage stage) {
  return net::TransportPtr(new Wire(*this, std::move(link), stage),
                           net::TransportDeleter{.loop = this});
}

Wire::Wire(SimulatedLoop& loop, std::shared_ptr<Link> link, net::FlushStage stage)
    : Transport(stage), loop_(loop), link_(std::move(link)) {
  link_->Join(this);
}

void Wire::Receive(std::string_view bytes) { Hear({.bytes = std::string(bytes)}); }

void Wire::OnClosed(net::Protocol::Closure closure) { Hear({.closed = true, .closure = closure}); }

void Wire::Hear(Arrived arrived) {
  arrived_.push_back(std::move(arrived));
  loop_.Deliver([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Deliver();
  });
}

// A protocol may close the connection, or stop reading, during the callback.
void Wire::Deliver() {
  if (std::exchange(handing_over_, true)) return;
  const std::weak_ptr<bool> alive = alive_;
  for (std::size_t i = 0; i < arrived_.size() && protocol_ != nullptr; ++i) {
    if (!reading_ && !arrived_[i].closed) {
      arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(i));
      handing_over_ = false;
      return;
    }
    const Arrived arrived = std::move(arrived_[i]);
    if (arrived.closed) {
      std::exchange(protocol_, nullptr)->OnClosed(arrived.closure, "cut");
    } else {
      protocol_->Receive(arrived.bytes);
    }
  }
  arrived_.clear();
  handing_over_ = false;
}

void Wire::Start(net::Protocol& protocol) { protocol_ = &protocol; }

void Wire::SetReading(bool reading) {
  reading_ = reading;
  if (!reading || arrived_.empty() || handing_over_) return;
  loop_.Deliver([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Deliver();
  });
}

void Wire::Flush() {
  std::string bytes;
  while (protocol_ != nullptr) {
    bytes.clear();
    protocol_->TakeOutput(bytes);
    if (bytes.empty()) return;
    if (link_) link_->ToRemote(bytes);
  }
}

void Wire::FinishSending() {
  Flush();
  if (link_) std::exchange(link_, nullptr)->CloseWire();
}

void Wire::Close() {
  protocol_ = nullptr;
  if (link_) std::exchange(link_, nullptr)->CloseWire();
}

}  // namespace sluice::simulation
