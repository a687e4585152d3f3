// Require: what the harness itself cannot do without. A machine that cannot start redis-server has
// nothing to say about Sluice, so the test program ends there, loudly.
#pragma once

#include <string_view>

namespace sluice::test {

// Prints `what` and ends the program unless `holds`. Started processes end with it.
void Require(bool holds, std::string_view what);

}  // namespace sluice::test
