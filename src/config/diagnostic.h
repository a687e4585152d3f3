// A mistake or a warning, with its position in a configuration file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Position {
  int line = 0;  // from 1; 0: the file as a whole
  int column = 0;

  auto operator<=>(const Position&) const = default;
};

struct Diagnostic {
  std::string file;
  Position position;
  std::string path;     // such as "rules[3].limits[0].window"; empty: the file as a whole
  std::string message;  // what was found; what is allowed

  // "shop.yaml:12:9: rules[3].name: found nothing; …". Empty parts are left out.
  std::string ToString() const;
};

using Diagnostics = std::vector<Diagnostic>;

// Sorts by file, then by position.
void SortByPosition(Diagnostics& diagnostics);

// The word in `words` that is nearest to `word`, which is probably misspelled. "" if none is near.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> words);

// " (did you mean "x"?)", where x is NearestWord. Empty if no word is near.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> words);

}  // namespace sluice
