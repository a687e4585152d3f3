// /v1/auth: a proxy (nginx auth_request, Traefik forwardAuth, Caddy forward_auth) checks whether to
// admit a request. auth_request.h describes the parameters.
//
// 204: allowed; if the request must wait (a leaky_bucket with delay), the response is sent after
// that wait. 429 or 403: denied. 400: the proxy's request is invalid. 401: the proxy is not
// permitted (`callers`). 503: no decision (`on_store_failure: error`, or the server is full), so
// the proxy's policy applies.
#pragma once

#include <string>

#include "http/router.h"
#include "http/unary_calls.h"

namespace sluice {

// `check_limit` must call CheckLimit and outlive the server.
HttpRoute AuthRoute(std::string path, UnaryCalls& check_limit);

}  // namespace sluice
