#include "api/checks_parser.h"

#include <fmt/format.h>

#include "base/wire_reader.h"

namespace sluice {
namespace {

Error MalformedChecks() { return InvalidArgument("checks: not a valid protobuf message"); }

}  // namespace

Result<void> ParseChecks(std::string_view bytes, std::vector<std::string_view>& checks) {
  constexpr WireTag kChecks{1, WireType::kBytes};
  checks.clear();
  WireReader reader(bytes);
  while (!reader.done()) {
    const auto tag = reader.ReadTag();
    if (!tag) return MalformedChecks();
    if (*tag != kChecks) {
      if (!reader.Skip(*tag)) return MalformedChecks();
      continue;
    }
    const auto check = reader.ReadBytes();
    if (!check) return MalformedChecks();
    if (checks.size() == kMaxChecksPerMessage) {
      return InvalidArgument(
          fmt::format("checks: more than {} are not allowed", kMaxChecksPerMessage));
    }
    checks.push_back(*check);
  }
  if (checks.empty()) {
    return InvalidArgument(
        fmt::format("checks: is empty; 1 to {} are allowed", kMaxChecksPerMessage));
  }
  return {};
}

}  // namespace sluice
