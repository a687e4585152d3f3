// URLs that proxies pass on. Any query is read without a crash. An encoded value is decoded to the
// original. A path is normalized, and its encoded spelling becomes the same path.
#include <google/protobuf/stubs/logging.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "http/auth_request.h"

namespace sluice {
namespace {

std::string Encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) encoded += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  return encoded;
}

HttpRequest WithQuery(std::string query) {
  return {.method = "GET",
          .path = "/v1/auth",
          .query = std::move(query),
          .headers = {},
          .body = {},
          .peer = {}};
}

// Returns the attribute `name` of the request's check. Returns empty text if the check is not UTF-8
// or has no such attribute. Aborts if the request is refused.
std::string Attribute(const HttpRequest& request, const std::string& name) {
  const auto asked = ParseAuthRequest(request);
  if (!asked) std::abort();
  v1::CheckLimitRequest check;
  if (!check.ParseFromString(asked->check)) return {};
  const auto found = check.attributes().find(name);
  return found == check.attributes().end() ? std::string() : found->second;
}

std::string PathOf(const std::string& url) {
  HttpRequest request = WithQuery("domain=d&path.endpoint=X-Url");
  request.headers.emplace_back("X-Url", url);
  return Attribute(request, "endpoint");
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

void CheckPath(const std::string& url) {
  const std::string path = PathOf(url);
  if (path.empty()) return;  // the header is empty
  if (!path.starts_with('/') || Has(path, "//") || Has(path + "/", "/./") ||
      Has(path + "/", "/../")) {
    std::abort();
  }
  if (PathOf(Encoded(path).insert(0, "/")) != path) std::abort();
}

}  // namespace
}  // namespace sluice

// Keeps protobuf from logging each string that is not UTF-8.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  static_cast<void>(sluice::ParseAuthRequest(sluice::WithQuery(input)));
  if (!sluice::IsValidUtf8(input)) return 0;  // the parser of checks refuses it
  const std::string value = "domain=d&x=" + sluice::Encoded(input);
  if (sluice::Attribute(sluice::WithQuery(value), "x") != input) std::abort();
  sluice::CheckPath(input);
  return 0;
}
