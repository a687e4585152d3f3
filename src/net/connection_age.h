// The age at which a server ends a connection, so that callers reconnect, perhaps to another
// server.
//
// Loop thread only.
#pragma once

#include "base/clock.h"
#include "net/loop.h"

namespace sluice::net {

// When a connection that begins now has reached its maximum age: after a random 90 to 110 % of
// `max_age`, so that callers that connected together do not reconnect together. Never if `max_age`
// is zero.
SteadyTime EndOfAge(Loop& loop, Duration max_age);

}  // namespace sluice::net
