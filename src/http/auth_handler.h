// /v1/auth: a proxy (nginx auth_request, Traefik forwardAuth, Caddy forward_auth) asks whether the
// request it holds may go on. auth_request.h says how it asks.
//
// 204: yes, once the answer is there; if the request has to wait (a leaky_bucket with delay), the
// answer comes only then. 429 or 403: no. 400: the proxy's question is wrong. 503, 504: no answer
// (`on_store_failure: error`, for proxies with a policy of their own).
#pragma once

#include <string>

#include "http/router.h"
#include "http/unary_calls.h"

namespace sluice {

// `check_limit` calls CheckLimit, and must outlive the server.
HttpRoute AuthRoute(std::string path, UnaryCalls& check_limit);

}  // namespace sluice
