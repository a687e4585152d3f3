#include "http/http_connections.h"

#include <algorithm>
#include <utility>

#include "net/eviction.h"
#include "net/tls_transport.h"

namespace sluice {
namespace {

// How many connections beyond the limit may be posted to threads. Without this bound, accepted
// connections that wait for a slow thread could use up the process' open files.
constexpr std::size_t kMostBeyond = 16;

// A full thread closes this part of its connections at a time, since finding them reads all.
constexpr std::size_t kRoomPart = 64;

// Connections of a thread that have no place. A further one replaces the oldest.
constexpr std::size_t kMostWithoutPlace = 16;

constexpr net::Alpn kAlpn{.protocol = "\x08http/1.1"};

}  // namespace

void HttpConnections::Deliver(HttpServing& serving, Arrival arrival) {
  net::EpollLoop& loop = arrival.place.loop();
  const std::size_t here = net::Loop::Current()->index();
  if (loop.index() == here) return serving.by_thread[here]->Add(std::move(arrival));
  const std::size_t most = serving.options.max_connections + kMostBeyond;
  if (arrival.turned_away == 0 && serving.limit.open() + serving.arriving >= most) {
    return serving.by_thread[here]->Add(
        {.socket = std::move(arrival.socket), .place = serving.threads.PlaceOn(here)});
  }
  ++serving.arriving;
  loop.Post([posted = std::make_shared<Arrival>(std::move(arrival)), &serving] {
    --serving.arriving;
    serving.by_thread[posted->place.loop().index()]->Add(std::move(*posted));
  });
}

void HttpConnections::Add(Arrival arrival) {
  if (closed_) return;
  const bool has_place = !serving_.limit.full() || MakeRoom(arrival.socket.Remote().Network());
  if (!has_place) {
    if (arrival.turned_away + 1 < serving_.threads.size()) return PassOn(std::move(arrival));
    serving_.limit.NoteRefused(loop_.now());
    MakeRoomWithoutPlace();
  }
  auto transport = loop_.Adopt(std::move(arrival.socket), net::FlushStage::kCallers);
  if (options().tls != nullptr) {
    transport = net::AcceptTls(loop_, std::move(transport), *options().tls, kAlpn);
  }
  auto connection = std::make_unique<HttpConnection>(*this, std::move(arrival.place),
                                                     std::move(transport), has_place);
  connection->number = ++last_number_;
  HttpConnection& started = *connection;
  connections_.emplace_hint(connections_.end(), started.number, std::move(connection));
  if (has_place) {
    serving_.limit.Enter();
  } else {
    without_place_.push_back(&started);
  }
  started.Start();
}

bool HttpConnections::MakeRoom(const std::string& newcomer) {
  const auto victims = Victims(newcomer, std::max<std::size_t>(connections_.size() / kRoomPart, 1));
  for (HttpConnection* const it : victims) Remove(*it);
  for (std::size_t i = 0; i < victims.size(); ++i) serving_.limit.NoteReplaced();
  return !victims.empty();
}

void HttpConnections::MakeRoomWithoutPlace() {
  if (without_place_.size() >= kMostWithoutPlace) Remove(*without_place_.front());
}

std::vector<HttpConnection*> HttpConnections::Victims(const std::string& newcomer,
                                                      std::size_t count) const {
  std::vector<HttpConnection*> connections;
  std::vector<net::Occupant> occupants;
  for (const auto& [number, connection] : connections_) {
    if (!connection->has_place()) continue;
    connections.push_back(connection.get());
    occupants.push_back(connection->AsOccupant());
  }
  std::vector<HttpConnection*> victims;
  for (const std::size_t i : net::ChooseVictims(occupants, newcomer, count)) {
    victims.push_back(connections[i]);
  }
  return victims;
}

void HttpConnections::NoteBuffered(std::size_t before, std::size_t now) {
  buffered_ += now - before;
  if (buffered_ <= MostBuffered() || std::exchange(freeing_, true)) return;
  loop_.Post([this] { FreeMemory(); });
}

// Frees an eighth, so that the next bytes do not lead here again at once.
void HttpConnections::FreeMemory() {
  freeing_ = false;
  for (HttpConnection* const it : Victims({}, connections_.size())) {
    if (buffered_ <= MostBuffered() - MostBuffered() / 8) return;
    if (!it->holds_bytes()) continue;
    Remove(*it);
    serving_.limit.NoteReplaced();
  }
}

std::size_t HttpConnections::MostBuffered() const {
  return options().max_buffered / serving_.threads.size();
}

bool HttpConnections::MayWait() const {
  const std::size_t half = options().max_connections / 2 / serving_.threads.size();
  return answering_ < std::max<std::size_t>(half, 1);
}

void HttpConnections::PassOn(Arrival arrival) {
  const std::size_t threads = serving_.threads.size();
  Deliver(serving_, {.socket = std::move(arrival.socket),
                     .place = serving_.threads.PlaceOn((loop_.index() + 1) % threads),
                     .turned_away = arrival.turned_away + 1});
}

void HttpConnections::Remove(HttpConnection& connection) {
  connection.Close();
  if (connection.has_place()) {
    serving_.limit.Leave();
  } else {
    std::erase(without_place_, &connection);
  }
  auto node = connections_.extract(connection.number);
  loop_.DisposeLater(std::move(node.mapped()));
}

void HttpConnections::Drain() {
  draining_ = true;
  for (const auto& [number, connection] : connections_) connection->Drain();
}

void HttpConnections::CloseAll() {
  closed_ = true;
  while (!connections_.empty()) Remove(*connections_.begin()->second);
}

}  // namespace sluice
