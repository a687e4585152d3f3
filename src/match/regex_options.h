// The options of every regular expression in rules. For files that already include RE2.
#pragma once

#include <re2/re2.h>

namespace sluice {

inline re2::RE2::Options RegexOptions() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);
  return options;
}

}  // namespace sluice
