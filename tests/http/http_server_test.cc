// The HTTP door, spoken to in bytes.
#include "http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#include "tests/support/http_get.h"
#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A connection to a unix socket; reads wait at most 10 s.
class Connection {
 public:
  explicit Connection(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(0, connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  ~Connection() { close(socket_); }

  // The peer may have had enough before it has taken everything.
  void Send(std::string_view bytes) { send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  // What comes until `end` has come or the peer closes.
  std::string ReadUntil(std::string_view end) {
    std::string read;
    char buffer[4096];
    while (!read.ends_with(end)) {
      const ssize_t size = recv(socket_, buffer, sizeof(buffer), 0);
      if (size <= 0) break;
      read.append(buffer, static_cast<std::size_t>(size));
    }
    return read;
  }
  // Everything until the peer closes.
  std::string ReadAll() { return ReadUntil("\x01never\x01"); }

 private:
  const int socket_;
};

class HttpServer_Test : public ::testing::Test {
 protected:
  HttpServer_Test() { server_ = HttpServer::Start(address_, Routes()).value(); }

  static std::vector<HttpRoute> Routes() {
    return {{"/healthz", [] { return HttpResponse{.body = "ok\n"}; }},
            {"/gone", [] { return HttpResponse{.status = 410, .body = "no more\n"}; }}};
  }

  // The whole answer to one request on a connection of its own.
  std::string Ask(const std::string& request) {
    Connection connection(address_.unix_path);
    connection.Send(request);
    return connection.ReadAll();
  }

  const test::TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "http.sock"};
  std::unique_ptr<HttpServer> server_;
};

struct Case {
  std::string request;
  std::string status;
  std::string end;
};

TEST_F(HttpServer_Test, Request_IsAnsweredByItsRoute) {
  const std::string close = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  for (const auto& [request, status, end] : std::vector<Case>{
           {"GET /healthz" + close, "200 OK", "Content-Length: 3\r\n\r\nok\n"},
           {"HEAD /healthz" + close, "200 OK", "Content-Length: 3\r\n\r\n"},
           {"GET /healthz?verbose=1" + close, "200 OK", "ok\n"},
           {"GET /gone" + close, "410 Gone", "no more\n"},
           {"GET /" + close, "404 Not Found", "not found\n"},
           {"GET /healthz/" + close, "404 Not Found", "not found\n"},
           {"POST /healthz" + close, "405 Method Not Allowed", "are allowed\n"},
           {"GET /healthz HTTP/1.0\r\n\r\n", "200 OK", "ok\n"},
           {"nonsense\r\n\r\n", "400 Bad Request", "\r\n\r\n"},
           {"GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n",
            "431 Request Header Fields Too Large", "\r\n\r\n"},
           {"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n", "413 Payload Too Large",
            "\r\n\r\n"},
       }) {
    EXPECT_THAT(Ask(request),
                AllOf(StartsWith("HTTP/1."), HasSubstr(" " + status + "\r\n"), EndsWith(end)))
        << request.substr(0, 40);
  }
}

TEST_F(HttpServer_Test, Connection_IsKeptForTheNextRequest) {
  Connection connection(address_.unix_path);
  for (int i = 0; i < 3; ++i) {
    connection.Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(connection.ReadUntil("ok\n"), HasSubstr("200 OK"));
  }
}

TEST_F(HttpServer_Test, Stop_ClosesIdleConnectionsAndRemovesTheSocket) {
  Connection connection(address_.unix_path);
  connection.Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  connection.ReadUntil("ok\n");
  server_.reset();
  EXPECT_EQ("", connection.ReadAll());
  EXPECT_NE(0, access(address_.unix_path.c_str(), F_OK));
}

TEST_F(HttpServer_Test, Start_AddressInUse_Fails) {
  const auto second = HttpServer::Start(address_, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

TEST(HttpServer_OnTcp, TakesAFreePortThatNobodyElseGets) {
  const auto server =
      HttpServer::Start({.host = "127.0.0.1", .unix_path = {}},
                        {{"/healthz", [] { return HttpResponse{.body = "ok\n"}; }}});
  ASSERT_TRUE(server);
  const Address bound = server.value()->address();
  EXPECT_NE(0, bound.port);
  EXPECT_EQ("ok\n", test::HttpGet(bound.ToString(), "/healthz").body);
  const auto same = HttpServer::Start(bound, {});
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().message, HasSubstr("Address already in use"));
}

TEST(HttpServer_StaleSocketOfADeadProcess, IsReplaced) {
  const test::TempDir dir;
  const std::string path = dir.path() / "http.sock";
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(0, bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  close(dead);
  EXPECT_TRUE(HttpServer::Start({.host = {}, .unix_path = path}, {}));
  dir.Write("file", "precious");
  EXPECT_FALSE(HttpServer::Start({.host = {}, .unix_path = dir.path() / "file"}, {}));
}

}  // namespace
}  // namespace sluice
