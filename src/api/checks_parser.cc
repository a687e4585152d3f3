#include "api/checks_parser.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include <fmt/format.h>

namespace sluice {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::uint32_t kChecks =
    WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

Error MalformedChecks() { return InvalidArgument("checks: not a valid protobuf message"); }

}  // namespace

// Does not use the generated parser, which would refuse all checks because of an error in one.
Result<void> ParseChecks(std::string_view bytes, std::vector<std::string_view>& checks) {
  checks.clear();
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = input.ReadTag()) {
    if (tag != kChecks) {
      if (!WireFormatLite::SkipField(&input, tag)) return MalformedChecks();
      continue;
    }
    int size = 0;
    if (!input.ReadVarintSizeAsInt(&size)) return MalformedChecks();
    const auto begin = static_cast<std::size_t>(input.CurrentPosition());
    if (!input.Skip(size)) return MalformedChecks();
    if (checks.size() == kMaxChecksPerMessage) {
      return InvalidArgument(
          fmt::format("checks: more than {} are not allowed", kMaxChecksPerMessage));
    }
    checks.push_back(bytes.substr(begin, static_cast<std::size_t>(size)));
  }
  if (!input.ConsumedEntireMessage()) return MalformedChecks();
  if (checks.empty()) {
    return InvalidArgument(
        fmt::format("checks: is empty; 1 to {} are allowed", kMaxChecksPerMessage));
  }
  return {};
}

}  // namespace sluice
