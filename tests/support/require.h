// Require: checks what the test harness needs. For example, if redis-server cannot be started,
// tests are meaningless, so the test program ends with an error.
#pragma once

#include <string_view>

namespace sluice::test {

// If `holds` is false, prints `what` and aborts the program. Each Process that the program has
// started is killed, too.
void Require(bool holds, std::string_view what);

}  // namespace sluice::test
