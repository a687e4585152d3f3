// Requests and responses of HTTP as handlers see them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/peer.h"

namespace sluice {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// Names of headers are the same in any case.
bool HasName(const HttpHeaders::value_type& header, std::string_view name);

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // up to the '?', as it was sent
  std::string query;   // after the '?', as it was sent
  HttpHeaders headers;
  std::string body;
  net::Peer peer;

  // The first header of that name in any case; empty if there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  HttpHeaders headers{};  // besides the content's
  Duration delay{};       // before it is sent
};

}  // namespace sluice
