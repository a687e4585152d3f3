// Parses a proxy's request to /v1/auth into a check.
//
//   GET /v1/auth?domain=shop&method=POST&path.endpoint=X-Original-URI&header.user=X-User
//
// Parameters: `domain`, `cost`, `deny_status` (429 or 403), `max_wait` (the longest delay of a
// leaky_bucket, 1 ms to 60 s, default 800 ms), amounts, and attributes. amount.NAME=5 sets an
// amount. NAME=VALUE sets an attribute. header.NAME=HEADER sets an attribute to a header's value.
// path.NAME=HEADER sets an attribute to the path of the URL or URI reference in a header, decoded
// and normalized ("/a/../b//c" becomes "/b/c"). If the header is absent, the attribute is absent,
// too. Each byte of a header that is not UTF-8 is written as "%FF" (its hexadecimal value), and
// values that are too long for an attribute are cut off. So no header's value makes the request
// invalid. A header that occurs twice is an error, because one of the two may be the client's.
// The exceptions are X-Forwarded-For and Forwarded: proxies append items to these headers, so the
// last item is used.
//
// If `domain` is missing, the headers X-Sluice-Domain, X-Sluice-Cost, X-Sluice-Amount-NAME and
// X-Sluice-Attr-NAME define the check (dashes in NAME become underscores); any other X-Sluice-NAME
// is an error, because it is probably misspelled. If `domain` is given, all these headers are
// ignored, so that a client cannot add attributes through a proxy that forwards its headers.
#pragma once

#include <string>

#include "base/result.h"
#include "http/http_message.h"

namespace sluice {

struct AuthRequest {
  std::string check;  // a serialized CheckLimitRequest that consumes
  int deny_status = 429;
};

// Fails with kInvalidArgument. The error names the parameter or header.
Result<AuthRequest> ParseAuthRequest(const HttpRequest& request);

}  // namespace sluice
