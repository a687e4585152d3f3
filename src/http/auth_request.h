// What a proxy asks at /v1/auth, as a check.
//
//   GET /v1/auth?domain=shop&method=POST&path.endpoint=X-Original-URI&header.user=X-User
//
// Parameters: `domain`, `cost`, `deny_status` (429 or 403), and attributes. NAME=VALUE is an
// attribute as it stands; header.NAME=HEADER takes its value from that header of the request, and
// path.NAME=HEADER the path of the URL or URI reference in that header, decoded and normalised
// ("/a/../b//c" is "/b/c"). An absent header is an absent attribute.
//
// Without `domain` the headers X-Sluice-Domain, X-Sluice-Cost and X-Sluice-Attr-NAME say it all
// (dashes in NAME are underscores in the attribute's). With it they mean nothing, so that a client
// cannot add attributes through a proxy that passes its headers on.
#pragma once

#include <string>

#include "base/result.h"
#include "http/http_message.h"

namespace sluice {

struct AuthRequest {
  std::string check;  // a serialized CheckLimitRequest that consumes
  int deny_status = 429;
};

// Fails with kInvalidArgument, naming the parameter or header.
Result<AuthRequest> ParseAuthRequest(const HttpRequest& request);

}  // namespace sluice
