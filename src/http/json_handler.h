// HTTP routes that call unary RPC methods, with messages in protobuf's JSON mapping.
//
// An error is a JSON object with the gRPC `code` and a `message`, and has the HTTP status that gRPC
// gateways use for that code. A denial is not an error.
#pragma once

#include <string>
#include <string_view>

#include "base/worker.h"
#include "http/router.h"
#include "http/unary_calls.h"

namespace sluice {

// The HTTP status of a finished call, for a route that does not use HttpStatusOf.
using StatusOfCall = int (*)(const rpc::Status& status, std::string_view response);

// POST calls the method of `calls`. `calls` must outlive the server. REQUIRES: the method's
// messages are compiled in.
HttpRoute JsonRoute(std::string path, UnaryCalls& calls, StatusOfCall status_of = nullptr);

// GET calls the method with an empty request. The answer may be long, so `worker` writes its JSON.
HttpRoute JsonPage(std::string path, UnaryCalls& calls, Worker& worker);

// The response of these routes to an error.
HttpResponse ErrorResponse(const rpc::Status& status);

// The HTTP status of an error.
int HttpStatusOf(rpc::StatusCode code);

}  // namespace sluice
