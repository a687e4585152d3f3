#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice {
namespace {

// Optimal string alignment distance, three rows at a time.
std::size_t Edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view NearestOf(std::string_view text, std::span<const std::string_view> known) {
  constexpr std::size_t kLongestGuessed = 64;
  if (text.size() > kLongestGuessed) return {};
  std::string_view nearest;
  std::size_t fewest = text.size() / 3 + 2;
  for (const auto word : known) {
    const std::size_t edits = Edits(text, word);
    if (edits < fewest && edits < word.size()) {
      fewest = edits;
      nearest = word;
    }
  }
  return nearest;
}

}  // namespace sluice
