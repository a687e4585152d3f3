// Makes the counters a request leads to as new: for operators who let somebody go on.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/check_request.h"

namespace sluice {

class Limiter;

// Resets the counters of every rule that matches `request`, or of `rule` alone unless that is
// empty: in the store, for the whole fleet, and this server's own copies of them for outages.
// Returns their keys, used or not.
//
// Fails with kNotFound if `rule` does not match or lacks an attribute, with kUnavailable if the
// store did not do it. Blocks for at most a second, so call it on no thread that serves checks.
Result<std::vector<std::string>> ResetLimit(Limiter& limiter, const CheckRequest& request,
                                            std::string_view rule);

}  // namespace sluice
