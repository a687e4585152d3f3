#include "config/diagnostic.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// The Levenshtein distance: the number of characters to insert, delete or replace.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// Whether `a` is `b` with two neighboring characters swapped.
bool IsSwapped(std::string_view a, std::string_view b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  if (a.size() != b.size() || a.end() - in_a < 2) return false;
  return in_a[0] == in_b[1] && in_a[1] == in_b[0] &&
         std::equal(in_a + 2, a.end(), in_b + 2, b.end());
}

}  // namespace

std::string Diagnostic::ToString() const {
  std::string where = file;
  if (position.line > 0) where += fmt::format(":{}:{}", position.line, position.column);
  if (!path.empty()) where += ": " + path;
  if (where.empty() || message.empty()) return where + message;
  return where + ": " + message;
}

void SortByPosition(Diagnostics& diagnostics) {
  std::ranges::stable_sort(diagnostics, {},
                           [](const Diagnostic& it) { return std::tie(it.file, it.position); });
}

std::string_view NearestWord(std::string_view word, std::span<const std::string_view> words) {
  constexpr std::size_t kLongestWord = 100;
  if (word.empty() || word.size() > kLongestWord) return "";
  std::size_t least = std::max<std::size_t>(1, (word.size() - 1) / 3) + 1;
  std::string_view nearest;
  for (const std::string_view candidate : words) {
    const bool is_cut_short = word.size() >= 3 && candidate.starts_with(word);
    const bool is_near = is_cut_short || IsSwapped(word, candidate);
    const std::size_t distance = is_near ? 1 : EditDistance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> words) {
  const std::string_view nearest = NearestWord(word, words);
  return nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest);
}

}  // namespace sluice
