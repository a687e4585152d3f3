// Require: checks what the test harness needs. For example, if redis-server cannot be started,
// tests are meaningless, so the test program ends with an error.
#pragma once

#include <string_view>

namespace sluice::test {

// Unless `holds`: prints `what`, and ends the program and the processes that it has started.
void Require(bool holds, std::string_view what);

}  // namespace sluice::test
