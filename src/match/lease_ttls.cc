#include "match/lease_ttls.h"

#include <algorithm>

#include <fmt/format.h>

namespace sluice {
namespace {

std::string Name(std::string_view counter, std::string_view tag) {
  return fmt::format("{}:{}", counter, tag);
}

std::string_view Before(std::string_view text, char end) { return text.substr(0, text.find(end)); }

// The key without its values: see counter_key.h, and WriteKeyPrefix in rule_index.cc for a domain
// with colocate, where the rule follows the braces. Empty if `key` is not a counter's key.
std::string NameOf(std::string_view key) {
  const auto open = key.find('{');
  const auto close = key.find('}');
  const auto colon = key.rfind(':');
  if (close > colon || open > close || colon == std::string_view::npos) return "";
  const std::string_view braced = key.substr(open + 1, close - open - 1);
  const std::string_view behind = key.substr(close + 1, colon - close - 1);
  const std::string_view domain = Before(braced, '/');
  std::string_view rule = behind;
  if (behind.empty()) rule = braced.substr(std::min(domain.size() + 1, braced.size()));
  return Name(fmt::format("{}/{}", domain, Before(rule, '/')), key.substr(colon + 1));
}

}  // namespace

void LeaseTtls::Add(std::string_view counter, std::string_view tag, const Limit& limit) {
  const auto* const concurrency = std::get_if<Concurrency>(&limit);
  if (concurrency == nullptr) return;
  Duration& longest = ttls_[Name(counter, tag)];
  longest = std::max(longest, concurrency->ttl);
}

std::optional<Duration> LeaseTtls::Find(std::string_view key) const {
  const auto found = ttls_.find(NameOf(key));
  if (found == ttls_.end()) return std::nullopt;
  return found->second;
}

}  // namespace sluice
