#include "http/http_server.h"

#include <utility>  // for Boost 1.74, which forgets it

#include <unistd.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/unix_socket.h"
#include "http/http_connection.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;
using boost::system::error_code;

// After a failed accept (no file descriptors left), rather than try again at once for ever.
constexpr std::chrono::milliseconds kAcceptPause(100);

Result<Protocol::endpoint> Resolve(asio::io_context& io, const Address& address) {
  if (address.is_unix()) {
    if (auto free = RemoveStaleSocket(address.unix_path); !free) return free.error();
    return Protocol::endpoint(asio::local::stream_protocol::endpoint(address.unix_path));
  }
  error_code error;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(address.host, std::to_string(address.port),
                                      asio::ip::tcp::resolver::passive, error);
  if (error || found.empty()) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot resolve {} for HTTP: {}",
                                                      address.ToString(), error.message())};
  }
  return Protocol::endpoint(found.begin()->endpoint());
}

}  // namespace

struct HttpServer::State {
  State(Address where, std::vector<HttpRoute> routes)
      : address(std::move(where)), router(std::move(routes)) {}

  Result<void> Listen();
  void Accept();
  void OnAccepted(error_code error, HttpConnection::Socket socket);

  Address address;
  const Router router;  // outlives the connections, which io holds
  asio::io_context io{1};
  asio::basic_socket_acceptor<Protocol> acceptor{io};
  asio::steady_timer pause{io};
  Thread thread;
};

Result<void> HttpServer::State::Listen() {
  const auto endpoint = Resolve(io, address);
  if (!endpoint) return endpoint.error();
  error_code error;
  acceptor.open(endpoint->protocol(), error);
  // So that a restart does not wait for old connections to time out; a second listener still fails.
  if (!error && !address.is_unix()) {
    acceptor.set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error) acceptor.bind(*endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot listen on {} for HTTP: {}",
                                                      address.ToString(), error.message())};
  }
  if (!address.is_unix()) {
    const auto bound = acceptor.local_endpoint();
    asio::ip::tcp::endpoint tcp;
    tcp.resize(bound.size());
    std::memcpy(tcp.data(), bound.data(), bound.size());
    address.port = tcp.port();
  }
  return {};
}

void HttpServer::State::Accept() {
  acceptor.async_accept([this](error_code error, HttpConnection::Socket socket) {
    OnAccepted(error, std::move(socket));
  });
}

void HttpServer::State::OnAccepted(error_code error, HttpConnection::Socket socket) {
  if (!error) {
    std::make_shared<HttpConnection>(std::move(socket), router)->Read();
    return Accept();
  }
  spdlog::warn("HTTP: cannot accept a connection: {}", error.message());
  pause.expires_after(kAcceptPause);
  pause.async_wait([this](error_code) { Accept(); });
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->io.stop();
  state_->thread.Join();
  if (state_->address.is_unix()) unlink(state_->address.unix_path.c_str());
}

const Address& HttpServer::address() const { return state_->address; }

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const Address& address,
                                                      std::vector<HttpRoute> routes) {
  auto state = std::make_unique<State>(address, std::move(routes));
  if (auto listening = state->Listen(); !listening) return listening.error();
  state->Accept();
  state->thread = Thread("http", [io = &state->io] { io->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

}  // namespace sluice
