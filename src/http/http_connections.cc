#include "http/http_connections.h"

#include <utility>

#include "net/tls_transport.h"

namespace sluice {
namespace {

// How many connections beyond the limit may be posted to threads. Without this bound, accepted
// connections that wait for a slow thread could use up the process' open files.
constexpr std::size_t kMostBeyond = 16;

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
  if (serving_.limit.full() && !MakeRoom()) return PassOn(std::move(arrival));
  auto transport = loop_.Adopt(std::move(arrival.socket), net::FlushStage::kCallers);
  if (options().tls != nullptr) {
    transport = net::AcceptTls(loop_, std::move(transport), *options().tls, kAlpn);
  }
  auto connection =
      std::make_unique<HttpConnection>(*this, std::move(arrival.place), std::move(transport));
  HttpConnection& started = *connection;
  connections_.emplace(&started, std::move(connection));
  serving_.limit.Enter();
  started.Start();
}

bool HttpConnections::MakeRoom() {
  if (idle_.empty()) return false;
  Remove(*idle_.front());
  serving_.limit.NoteReplaced();
  return true;
}

void HttpConnections::PassOn(Arrival arrival) {
  const std::size_t threads = serving_.threads.size();
  if (arrival.turned_away + 1 == threads) return serving_.limit.NoteRefused(loop_.now());
  Deliver(serving_, {.socket = std::move(arrival.socket),
                     .place = serving_.threads.PlaceOn((loop_.index() + 1) % threads),
                     .turned_away = arrival.turned_away + 1});
}

void HttpConnections::Remove(HttpConnection& connection) {
  NoteBusy(connection);
  connection.Close();
  auto node = connections_.extract(&connection);
  loop_.DisposeLater(std::move(node.mapped()));
  serving_.limit.Leave();
}

void HttpConnections::Drain() {
  draining_ = true;
  for (HttpConnection* connection : idle_) connection->StartIdleTimer();
}

void HttpConnections::CloseAll() {
  closed_ = true;
  while (!connections_.empty()) Remove(*connections_.begin()->second);
}

void HttpConnections::NoteIdle(HttpConnection& connection) {
  NoteBusy(connection);
  connection.idle_place = idle_.insert(idle_.end(), &connection);
}

void HttpConnections::NoteBusy(HttpConnection& connection) {
  if (!connection.idle_place) return;
  idle_.erase(*connection.idle_place);
  connection.idle_place.reset();
}

}  // namespace sluice
