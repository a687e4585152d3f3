// How every regular expression of a rule is read. For the files that include RE2 anyway.
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
