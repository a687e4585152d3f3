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
  }
  return "";
}

std::string_view ToString(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kFixedWindow:
      return "fixed_window";
    case Algorithm::kSlidingLog:
      return "sliding_log";
    case Algorithm::kSlidingWindow:
      return "sliding_window";
    case Algorithm::kTokenBucket:
      return "token_bucket";
    case Algorithm::kLeakyBucket:
      return "leaky_bucket";
    case Algorithm::kConcurrency:
      return "concurrency";
  }
  return "";
}

}  // namespace sluice
