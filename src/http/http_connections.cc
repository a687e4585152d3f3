#include "http/http_connections.h"

#include <utility>

#include "net/tls_transport.h"

namespace sluice {

void HttpConnections::Add(net::Socket socket, net::IoThreads::Place place) {
  if (serving_.limit.full() && !MakeRoom()) return serving_.limit.NoteRefused(loop_.now());
  auto transport = loop_.Adopt(std::move(socket), net::FlushStage::kCallers);
  if (options().tls != nullptr) {
    transport = net::AcceptTls(loop_, std::move(transport), *options().tls);
  }
  auto connection = std::make_unique<HttpConnection>(*this, std::move(place), std::move(transport));
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

void HttpConnections::Remove(HttpConnection& connection) {
  NoteBusy(connection);
  connection.Close();
  auto node = connections_.extract(&connection);
  loop_.DisposeLater(std::move(node.mapped()));
  serving_.limit.Leave();
}

void HttpConnections::CloseAll() {
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
