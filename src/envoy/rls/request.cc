#include "envoy/rls/request.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "api/malformed_message.h"

namespace sluice::envoy {
namespace {

constexpr auto kMaxHits = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Result<void> Validate(const Request& request) {
  for (int i = 0; i < request.descriptors_size(); ++i) {
    const RequestedDescriptor& it = request.descriptors(i);
    const auto unit = static_cast<std::size_t>(it.limit().unit());
    if (it.has_limit() && (unit == 0 || unit >= kUnitLengths.size())) {
      return InvalidArgument(
          fmt::format("descriptors[{}].limit.unit: {} is not known; allowed are 1 to {}", i,
                      static_cast<int>(it.limit().unit()), kUnitLengths.size() - 1));
    }
    if (it.hits_addend().value() > kMaxHits) {
      return InvalidArgument(
          fmt::format("descriptors[{}].hits_addend: {} is too large; allowed are 0 to {}", i,
                      it.hits_addend().value(), kMaxHits));
    }
  }
  return {};
}

}  // namespace

Result<void> ParseRequest(std::string_view bytes, Request& request) {
  if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Validate(request);
  }
  return MalformedMessage(*request.GetDescriptor(), bytes);
}

void ReadEntries(const RequestedDescriptor& descriptor, std::vector<Entry>& entries) {
  entries.clear();
  for (const auto& it : descriptor.entries()) entries.push_back({it.key(), it.value()});
}

std::uint64_t HitsOf(const Request& request, const RequestedDescriptor& descriptor) {
  if (descriptor.has_hits_addend()) return descriptor.hits_addend().value();
  return std::max<std::uint32_t>(1, request.hits_addend());
}

}  // namespace sluice::envoy
