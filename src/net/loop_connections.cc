#include "net/loop_connections.h"

#include <algorithm>
#include <tuple>

namespace sluice::net {
namespace {

// If the server is full, a loop closes 1/kRoomPart of its connections at a time, because each
// choice examines all of them.
constexpr std::size_t kRoomPart = 32;

// If `spares_more`, a connection that has waited for its peer for less than kGrace is spared,
// because connections on another loop may have waited longer.
constexpr std::chrono::milliseconds kGrace(50);

// If all chosen connections have unread input, others are chosen, in at most this many attempts.
constexpr int kMostChoices = 4;

// The maximum number of connections without a place, per loop. A further one replaces the oldest.
constexpr std::size_t kMostWithoutPlace = 16;

SteadyTime EndOfAge(Loop& loop, Duration max_age) {
  if (max_age == Duration::zero()) return SteadyTime::max();
  const auto percent = static_cast<std::int64_t>(90 + loop.Random() % 21);
  return loop.now() + max_age * percent / 100;
}

}  // namespace

std::vector<std::size_t> ChooseVictims(std::span<const Occupant> occupants,
                                       const Occupant& newcomer, std::size_t share,
                                       std::size_t count) {
  using Rank = std::tuple<bool, int, SteadyTime, std::size_t>;
  const auto waiting = std::ranges::count_if(occupants, &Occupant::waits_for_peer);
  const bool most_wait = 2 * static_cast<std::size_t>(waiting) > occupants.size();
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < occupants.size(); ++i) {
    const Occupant& it = occupants[i];
    if (most_wait) {
      const bool is_next = it.waits_for_peer() && it.since <= newcomer.since;
      if (is_next && it.waiting >= newcomer.waiting) ranks.emplace_back(false, 0, it.since, i);
    } else if (it.state != Occupant::State::kBusy && it.places >= newcomer.places) {
      ranks.emplace_back(it.places <= share, -static_cast<int>(it.state), it.since, i);
    }
  }
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranks.size()));
  std::partial_sort(ranks.begin(), end, ranks.end());
  std::vector<std::size_t> victims;
  for (auto it = ranks.begin(); it != end; ++it) victims.push_back(std::get<std::size_t>(*it));
  return victims;
}

bool ConnectionCount::TryAdd() {
  std::size_t open = open_.load(std::memory_order_relaxed);
  while (open < max_) {
    if (open_.compare_exchange_weak(open, open + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

void ConnectionCount::Remove() {
  if (open_.fetch_sub(1, std::memory_order_relaxed) > 1) return;
  const MutexLock lock(mutex_);
  none_.NotifyAll();
}

ConnectionCount::Network& ConnectionCount::Enter(std::string_view network) {
  const MutexLock lock(mutex_);
  Network& entered = *networks_.try_emplace(std::string(network), 0).first;
  ++entered.second;
  return entered;
}

void ConnectionCount::Leave(Network& network) {
  const MutexLock lock(mutex_);
  if (--network.second == 0) networks_.erase(networks_.find(network.first));
}

std::size_t ConnectionCount::Of(std::string_view network) const {
  const MutexLock lock(mutex_);
  const auto found = networks_.find(std::string(network));
  return found == networks_.end() ? 0 : found->second.load();
}

std::size_t ConnectionCount::share() const {
  const MutexLock lock(mutex_);
  return open() / std::max<std::size_t>(networks_.size(), 1);
}

bool ConnectionCount::WaitForNone(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return none_.WaitUntil(mutex_, deadline, [this] { return open() == 0; });
}

ServedConnection::ServedConnection(Loop& loop, TransportPtr transport, bool has_place,
                                   Duration max_age, Duration no_place_time)
    : transport_(std::move(transport)),
      too_old_at_(EndOfAge(loop, max_age)),
      ends_at_(has_place ? SteadyTime::max() : loop.now() + no_place_time),
      has_place_(has_place) {}

void ServedConnection::Discard(std::size_t bytes) {
  discarded_ += bytes;
  if (discarded_ > Transport::kMaxDiscarded) transport_->SetReading(false);
}

void ServedConnection::Close() {
  LoopConnections* const owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  transport_->Close();
  OnClose();
  owner->Remove(*this);
}

void LoopConnections::Add(std::unique_ptr<ServedConnection> connection, LoopAssignment assignment) {
  ServedConnection& added = *connection;
  if (!added.has_place() && without_place_.size() >= kMostWithoutPlace) {
    without_place_.front()->Close();
  }
  if (!added.has_place()) without_place_.push_back(&added);
  if (added.has_place()) added.network_ = &count_.Enter(added.transport_->peer().network);
  added.owner_ = this;
  added.assignment_ = std::move(assignment);
  added.in_owner_ = all_.insert(all_.end(), std::move(connection));
  added.Start();
  if (draining_) added.Drain();
}

void LoopConnections::Remove(ServedConnection& connection) {
  if (connection.has_place()) {
    count_.Leave(*connection.network_);
    count_.Remove();
  } else {
    std::erase(without_place_, &connection);
  }
  loop_.DisposeLater(std::move(*connection.in_owner_));
  all_.erase(connection.in_owner_);
}

bool LoopConnections::MakeRoom(std::string_view newcomer, bool spares_more) {
  const Occupant arriving = {
      .since = loop_.now() - (spares_more ? kGrace : Duration::zero()),
      .places = std::max(count_.Of(newcomer), spares_more ? count_.share() : 0)};
  const auto victims =
      Victims(arriving, std::max<std::size_t>(all_.size() / kRoomPart, 1), newcomer);
  for (ServedConnection* const it : victims) CloseForRoom(*it);
  return !victims.empty();
}

void LoopConnections::CloseForRoom(ServedConnection& connection) {
  on_replaced_();
  connection.Close();
}

std::vector<ServedConnection*> LoopConnections::Victims(Occupant newcomer, std::size_t count,
                                                        std::string_view network) const {
  std::vector<ServedConnection*> connections;
  std::vector<Occupant> occupants;
  std::unordered_map<const ConnectionCount::Network*, std::size_t> waiting;
  std::vector<const std::size_t*> waiting_beside;  // of each occupant's network
  for (const auto& it : all_) {
    if (!it->has_place()) continue;
    connections.push_back(it.get());
    occupants.push_back(it->AsOccupant());
    occupants.back().places = it->network_->second;
    std::size_t& beside = waiting[it->network_];
    if (occupants.back().waits_for_peer()) ++beside;
    waiting_beside.push_back(&beside);
  }
  for (std::size_t i = 0; i < occupants.size(); ++i) occupants[i].waiting = *waiting_beside[i];
  for (const auto& [known, waits] : waiting) {
    if (known->first == network) newcomer.waiting = waits;
  }
  // Only chosen connections are tested for unread input, because a test is a system call.
  std::vector<ServedConnection*> victims;
  std::vector<ServedConnection*> behind;
  for (int choices = 0; victims.empty() && choices < kMostChoices; ++choices) {
    for (const std::size_t i : ChooseVictims(occupants, newcomer, count_.share(), count)) {
      const bool is_behind = occupants[i].waits_for_peer() && connections[i]->IsBehind();
      if (is_behind) occupants[i].state = Occupant::State::kBusy;
      (is_behind ? behind : victims).push_back(connections[i]);
    }
  }
  if (!victims.empty()) return victims;
  behind.resize(std::min(behind.size(), count));
  return behind;
}

// Draining a connection may close it and remove it from all_.
void LoopConnections::Drain() {
  draining_ = true;
  for (auto it = all_.begin(); it != all_.end();) (*it++)->Drain();
}

void LoopConnections::CloseAll() {
  while (!all_.empty()) all_.front()->Close();
}

}  // namespace sluice::net
