// Requests and responses of HTTP as handlers see them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/peer.h"

namespace sluice {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // up to the '?', as it was sent
  std::string query;   // after the '?', as it was sent
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  net::Peer peer;

  // The first header of that name in any case; empty if there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};  // besides the content's
};

}  // namespace sluice
