#include "tests/support/http_get.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "tests/support/require.h"

namespace sluice::test {

namespace {

sockaddr_in Parse(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  Require(colon != std::string::npos, "not host:port: " + address);
  sockaddr_in parsed{};
  parsed.sin_family = AF_INET;
  parsed.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  Require(inet_pton(AF_INET, address.substr(0, colon).c_str(), &parsed.sin_addr) == 1,
          "not an IPv4 address: " + address);
  return parsed;
}

std::string ReadAll(int fd) {
  std::string all;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    all.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return all;
}

}  // namespace

HttpAnswer HttpGet(const std::string& address, const std::string& path) {
  const sockaddr_in to = Parse(address);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    answer = ReadAll(fd);
  }
  close(fd);
  const std::size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || head == std::string::npos) return {};
  return {.status = std::atoi(answer.c_str() + 9), .body = answer.substr(head + 4)};
}

}  // namespace sluice::test
