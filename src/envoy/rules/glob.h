// A pattern in which '*' matches any number of characters, including none.
//
// Thread-safe: immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::envoy {

class Glob {
 public:
  explicit Glob(std::string_view pattern);

  // Takes time proportional to the length of `text` times that of the longest part between stars.
  bool Matches(std::string_view text) const;

 private:
  std::vector<std::string> parts_;  // the texts between the stars, one more than there are stars
};

}  // namespace sluice::envoy
