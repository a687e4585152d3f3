#include "envoy/rules/glob.h"

namespace sluice::envoy {

Glob::Glob(std::string_view pattern) {
  for (auto star = pattern.find('*'); star != std::string_view::npos; star = pattern.find('*')) {
    parts_.emplace_back(pattern.substr(0, star));
    pattern.remove_prefix(star + 1);
  }
  parts_.emplace_back(pattern);
}

// The text must begin with the first part and end with the last one. Every other part is matched at
// its first occurrence, which leaves the most text for later parts.
bool Glob::Matches(std::string_view text) const {
  if (!text.starts_with(parts_.front())) return false;
  if (parts_.size() == 1) return text.size() == parts_.front().size();
  text.remove_prefix(parts_.front().size());
  for (std::size_t i = 1; i + 1 < parts_.size(); ++i) {
    const auto found = text.find(parts_[i]);
    if (found == std::string_view::npos) return false;
    text.remove_prefix(found + parts_[i].size());
  }
  return text.ends_with(parts_.back());
}

}  // namespace sluice::envoy
