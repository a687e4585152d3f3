// Short texts for tables in tests: requests to Envoy's service, and the answers of the service.
//
//   "shop h3; path=/x,user=eve; plan=gold *5; k=v -2; k=v !10/minute"
//     The domain and the request's hits (h). Then the descriptors: entries, perhaps followed by
//     hits (*), negative hits (-) or a limit (!).
//   "OVER; OK 9/10 minute 20s name; OVER 0/1 hour 800s; OK; OK inf"
//     The overall code. Then each descriptor's code. If the descriptor has a limit, also
//     remaining/limit, unit, time until reset and name; if it is unlimited, "inf". Then headers.
#pragma once

#include <envoy/service/ratelimit/v3/rls.pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "envoy/rules/rule_file.h"

namespace sluice::envoy {

namespace pb = ::envoy::service::ratelimit::v3;

inline std::vector<std::string> Split(std::string_view text, std::string_view by) {
  std::vector<std::string> parts;
  for (auto at = text.find(by); at != std::string_view::npos; at = text.find(by)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + by.size());
  }
  parts.emplace_back(text);
  return parts;
}

inline ::envoy::type::v3::RateLimitUnit UnitNumber(std::string_view name) {
  for (std::size_t i = 0; i < kUnitNames.size(); ++i) {
    if (kUnitNames[i] == name) return static_cast<::envoy::type::v3::RateLimitUnit>(i);
  }
  return static_cast<::envoy::type::v3::RateLimitUnit>(std::stoi(std::string(name)));
}

inline pb::RateLimitRequest RequestOf(std::string_view text) {
  pb::RateLimitRequest request;
  const auto parts = Split(text, "; ");
  for (const std::string& word : Split(parts[0], " ")) {
    if (request.domain().empty()) {
      request.set_domain(word);
    } else if (word.starts_with('h')) {
      request.set_hits_addend(static_cast<std::uint32_t>(std::stoull(word.substr(1))));
    }
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    auto& descriptor = *request.add_descriptors();
    const auto words = Split(parts[i], " ");
    for (const std::string& pair : Split(words[0], ",")) {
      if (pair.empty()) continue;
      const auto equals = pair.find('=');
      auto& entry = *descriptor.add_entries();
      entry.set_key(pair.substr(0, equals));
      if (equals != std::string::npos) entry.set_value(pair.substr(equals + 1));
    }
    for (std::size_t w = 1; w < words.size(); ++w) {
      const std::string rest = words[w].substr(1);
      if (words[w][0] == '!') {
        const auto limit = Split(rest, "/");
        descriptor.mutable_limit()->set_requests_per_unit(
            static_cast<std::uint32_t>(std::stoull(limit[0])));
        descriptor.mutable_limit()->set_unit(UnitNumber(limit[1]));
      } else {
        descriptor.mutable_hits_addend()->set_value(std::stoull(rest));
        descriptor.set_is_negative_hits(words[w][0] == '-');
      }
    }
  }
  return request;
}

inline std::string CodeText(pb::RateLimitResponse::Code code) {
  if (code == pb::RateLimitResponse::OK) return "OK";
  return code == pb::RateLimitResponse::OVER_LIMIT ? "OVER" : "UNKNOWN";
}

inline std::string TextOf(const pb::RateLimitResponse& response) {
  std::string text = CodeText(response.overall_code());
  for (const auto& status : response.statuses()) {
    text += "; " + CodeText(status.code());
    if (!status.has_current_limit()) {
      if (status.limit_remaining() == UINT32_MAX) text += " inf";
      continue;
    }
    const auto& limit = status.current_limit();
    text += fmt::format(" {}/{} {}", status.limit_remaining(), limit.requests_per_unit(),
                        kUnitNames[static_cast<std::size_t>(limit.unit())]);
    if (status.has_duration_until_reset()) {
      text += fmt::format(" {}s", status.duration_until_reset().seconds());
    }
    if (!limit.name().empty()) text += " " + limit.name();
  }
  for (const auto& header : response.response_headers_to_add()) {
    text += fmt::format("; {}: {}", header.key(), header.value());
  }
  return text;
}

}  // namespace sluice::envoy
