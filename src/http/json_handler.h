// POST: a unary method of rpc whose messages travel in protobuf's JSON mapping.
//
// An error is a JSON object with gRPC's `code` and a `message`, under the HTTP status that gRPC
// gateways use for that code. A denial is not an error.
#pragma once

#include <string>

#include "http/router.h"
#include "http/unary_calls.h"

namespace sluice {

// A route for the method that `calls` calls. `calls` must outlive the server. REQUIRES: the
// method's messages are compiled in.
HttpRoute JsonRoute(std::string path, UnaryCalls& calls);

// The HTTP status of an error.
int HttpStatusOf(rpc::StatusCode code);

}  // namespace sluice
