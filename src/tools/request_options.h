// The arguments that describe a request: DOMAIN KEY=VALUE… --amount NAME=NUMBER
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "base/result.h"
#include "sluice/v1/rate_limiter.pb.h"

namespace sluice::tools {

// Parses NAME=NUMBER. The error says what is expected.
Result<std::pair<std::string, std::uint64_t>> ParseAmount(const std::string& text);

// The amounts that limits may count besides the cost.
struct AmountOptions {
  std::map<std::string, std::uint64_t> amounts;

  // This object must outlive the parsing of `app`.
  void AddTo(CLI::App& app);

  // `Request`: any message with the field `amounts`.
  template <typename Request>
  requires requires(Request& request) { request.mutable_amounts(); }
  void AddTo(Request& request) const {
    request.mutable_amounts()->insert(amounts.begin(), amounts.end());
  }
};

struct RequestOptions {
  std::string domain;
  std::vector<std::string> attributes;  // KEY=VALUE, each key once
  AmountOptions amounts;                // empty unless their flag was added

  // Uses the app's callback to reject malformed attributes. This object must outlive the parsing of
  // `app`.
  void AddTo(CLI::App& app);

  // `Request`: any message with the fields `domain` and `attributes`, and perhaps `amounts`.
  template <typename Request>
  Request ToRequest() const {
    Request request;
    request.set_domain(domain);
    for (const std::string& attribute : attributes) {
      const auto equals = attribute.find('=');
      (*request.mutable_attributes())[attribute.substr(0, equals)] = attribute.substr(equals + 1);
    }
    if constexpr (requires { amounts.AddTo(request); }) amounts.AddTo(request);
    return request;
  }
};

}  // namespace sluice::tools
