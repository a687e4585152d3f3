// The arguments that describe a request: DOMAIN KEY=VALUE…
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace sluice::tools {

struct RequestOptions {
  std::string domain;
  std::vector<std::string> attributes;  // KEY=VALUE, each key once

  // Uses the app's callback to reject malformed attributes. Must outlive the parsing of `app`.
  void AddTo(CLI::App& app);

  // `Request`: any message with the fields `domain` and `attributes`.
  template <typename Request>
  Request ToRequest() const {
    Request request;
    request.set_domain(domain);
    for (const std::string& attribute : attributes) {
      const auto equals = attribute.find('=');
      (*request.mutable_attributes())[attribute.substr(0, equals)] = attribute.substr(equals + 1);
    }
    return request;
  }
};

}  // namespace sluice::tools
