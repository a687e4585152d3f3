// The flags of a benchmark program, in the form "--name NUMBER".
#pragma once

#include <map>
#include <string>

#include "tests/support/require.h"

namespace sluice::test {

class NumberFlags {
 public:
  NumberFlags(int argc, char** argv) {
    Require(argc % 2 == 1, "a flag has no value");
    for (int i = 1; i + 1 < argc; i += 2) flags_[argv[i]] = std::stod(argv[i + 1]);
  }

  // Sets `value` if the flag is given.
  template <typename Number>
  void Read(const char* name, Number& value) {
    const auto flag = flags_.extract(name);
    if (flag) value = static_cast<Number>(flag.mapped());
  }

  // Ends the program if there are unknown flags. Call it after the last Read.
  void RequireNoOthers() const { Require(flags_.empty(), "unknown flag"); }

 private:
  std::map<std::string, double> flags_;
};

}  // namespace sluice::test
