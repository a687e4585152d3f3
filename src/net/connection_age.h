// The age at which a server ends a connection, so that callers connect anew, perhaps elsewhere.
//
// Loop thread only.
#pragma once

#include "base/clock.h"
#include "net/loop.h"

namespace sluice::net {

// When a connection that begins now is too old: at 90 to 110 % of `max_age`, at random, so that
// callers that came together do not all come back together. Never if `max_age` is zero.
SteadyTime EndOfAge(Loop& loop, Duration max_age);

}  // namespace sluice::net
