// The bytes of an HTTP client arrive in one piece or in several. Requests are read without a crash.
// ParseAuthRequest turns each request into either a check that consumes or an error.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "api/check_message.h"
#include "http/auth_request.h"
#include "http/request_reader.h"

namespace sluice {
namespace {

void Ask(const HttpRequest& request) {
  const auto asked = ParseAuthRequest(request);
  if (!asked) return;
  if (asked->deny_status != 429 && asked->deny_status != 403) std::abort();
  CheckMessage message;
  CheckRequest check;
  const auto parsed = message.Parse(asked->check, check);
  if (parsed && check.demand.mode != Mode::kConsume) std::abort();
}

// Reads requests until the input ends or a request is refused.
void Read(std::string_view input, std::size_t piece) {
  std::optional<RequestReader> reader(std::in_place);
  std::string pending;
  for (bool more = true; more;) {
    more = !input.empty();
    pending += input.substr(0, piece);
    input.remove_prefix(std::min(piece, input.size()));
    std::size_t used = 0;
    const auto progress = reader->Read(pending, used);
    if (used > pending.size()) std::abort();
    pending.erase(0, used);
    if (progress == RequestReader::Progress::kRefused) return;
    if (progress != RequestReader::Progress::kDone) continue;
    Ask(reader->Take());
    reader.emplace();
    more = !input.empty() || !pending.empty();
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  sluice::Read(input, std::string_view::npos);
  sluice::Read(input, 7);
  return 0;
}
