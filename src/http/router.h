// From an HTTP request to the answer of its route.
//
// Thread-safe: immutable.
#pragma once

#include <vector>

#include <utility>  // for Boost 1.74, which forgets it

#include <boost/beast/http.hpp>

#include "http/http_server.h"

namespace sluice {

using BeastRequest = boost::beast::http::request<boost::beast::http::string_body>;
using BeastResponse = boost::beast::http::response<boost::beast::http::string_body>;

class Router {
 public:
  explicit Router(std::vector<HttpRoute> routes) : routes_(std::move(routes)) {}

  BeastResponse Answer(const BeastRequest& request) const;

 private:
  HttpResponse Dispatch(const BeastRequest& request) const;

  const std::vector<HttpRoute> routes_;
};

}  // namespace sluice
