// HTTP requests and responses for handlers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/peer.h"

namespace sluice {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Whether two names of headers are equal, ignoring case.
bool IsName(std::string_view a, std::string_view b);

// The value of the header with that name. nullopt if it is absent or occurs more than once.
std::optional<std::string_view> OnlyHeader(const HttpHeaders& headers, std::string_view name);

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // up to the '?', not decoded
  std::string query;   // after the '?', not decoded
  HttpHeaders headers;
  std::string body;
  net::Peer peer;
  bool has_place = true;  // false: the server is full and answers only probes
  bool may_wait = true;   // false: too many requests wait, so the response must have no delay
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  HttpHeaders headers{};  // other than Content-Type and Content-Length
  Duration delay{};       // how long to wait before sending
  // Set by HttpResponder::OnGone: called if the connection ends before the response is sent.
  std::function<void()> on_lost{};
};

// 503 with Retry-After.
HttpResponse Busy();

}  // namespace sluice
