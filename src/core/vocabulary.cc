#include "core/vocabulary.h"

namespace sluice {

std::string_view ToString(Decision decision) {
  return decision == Decision::kAllowed ? "allowed" : "denied";
}

std::string_view ToString(Source source) {
  switch (source) {
    case Source::kStore:
      return "store";
    case Source::kDenyCache:
      return "deny_cache";
    case Source::kFallback:
      return "fallback";
    case Source::kRule:
      return "rule";
    case Source::kNoRule:
      return "no_rule";
    case Source::kGrant:
      return "grant";
  }
  return "";
}

}  // namespace sluice
