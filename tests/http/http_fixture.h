// An HTTP server with two io threads on a unix socket, and clients that send raw bytes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_server.h"
#include "tests/net/test_protocol.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice {

// Reads and writes wait at most 10 s.
class HttpClient {
 public:
  explicit HttpClient(const Address& address) : socket_(net::BlockingSocket::ConnectTo(address)) {}

  // Returns false if the server closes before all bytes are sent.
  bool Send(std::string_view bytes) { return socket_.SendAll(bytes); }
  void FinishSending() { socket_.FinishSending(); }

  // Reads until the received bytes end with `end`, or the server closes.
  std::string ReadUntil(std::string_view end) {
    std::string read;
    while (!read.ends_with(end)) {
      const std::string more = socket_.ReadSome();
      read += more;
      if (more.empty() || more == net::BlockingSocket::kNothing) break;
    }
    return read;
  }
  std::string Read(std::size_t size) { return socket_.Read(size); }
  // Reads until the server closes.
  std::string ReadAll() { return socket_.ReadAll(); }

 private:
  net::BlockingSocket socket_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() { threads_.Start(); }
  ~HttpServerTest() override { server_.reset(); }

  void Start(std::vector<HttpRoute> routes, const HttpOptions& options = {}) {
    server_ = HttpServer::Start(threads_, address_, std::move(routes), options).value();
  }

  // Sends `request` on a new connection, and returns all bytes until the server closes.
  std::string Ask(const std::string& request) {
    HttpClient client(address_);
    client.Send(request);
    return client.ReadAll();
  }

  template <typename Condition>
  static bool Eventually(const Condition& condition) {
    return test::WaitUntil(std::chrono::seconds(10), condition);
  }

  const test::TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "http.sock"};
  net::IoThreads threads_{2};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace sluice
