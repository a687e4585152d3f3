// Require: checks preconditions of the test harness. If redis-server cannot be started, for
// example, tests are meaningless, so the test program ends with an error.
#pragma once

#include <string_view>

namespace sluice::test {

// Unless `holds`, prints `what` and ends the program and the processes it has started.
void Require(bool holds, std::string_view what);

}  // namespace sluice::test
