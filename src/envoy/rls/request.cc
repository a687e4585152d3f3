#include "envoy/rls/request.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/utf8.h"
#include "base/wire_reader.h"
#include "envoy/rules/unit.h"

namespace sluice::envoy {
namespace {

constexpr auto kMaxHits = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Error Malformed() { return InvalidArgument("the request is not a valid protobuf message"); }

// Calls `read` for every field of a message until it returns an error. If it returns false, it has
// not read the field, which is then skipped.
template <typename Read>
Result<void> ForEachField(WireReader reader, Read read) {
  while (!reader.done()) {
    const auto tag = reader.ReadTag();
    if (!tag) return Malformed();
    const Result<bool> known = read(*tag, reader);
    if (!known) return known.error();
    if (!*known && !reader.Skip(*tag)) return Malformed();
  }
  return {};
}

template <typename Number>
Result<bool> ReadNumber(WireReader& reader, Number& number) {
  const auto read = reader.ReadVarint();
  if (!read) return Malformed();
  number = static_cast<Number>(*read);
  return true;
}

Result<bool> ReadText(WireReader& reader, std::string_view field, std::string_view& text) {
  const auto read = reader.ReadBytes();
  if (!read) return Malformed();
  if (!IsValidUtf8(*read)) return InvalidArgument(fmt::format("{}: not valid UTF-8", field));
  text = *read;
  return true;
}

// Reads the fields of a nested message.
template <typename Read>
Result<bool> ReadMessage(WireReader& reader, Read read) {
  const auto bytes = reader.ReadBytes();
  if (!bytes) return Malformed();
  auto done = ForEachField(WireReader(*bytes, reader.depth() - 1), read);
  if (!done) return done.error();
  return true;
}

Result<bool> ReadEntry(WireReader& reader, Request& request) {
  Entry entry;
  auto read = ReadMessage(reader, [&](WireTag tag, WireReader& fields) -> Result<bool> {
    if (tag == WireTag{1, WireType::kBytes}) {
      return ReadText(fields, "descriptors.entries.key", entry.key);
    }
    if (tag == WireTag{2, WireType::kBytes}) {
      return ReadText(fields, "descriptors.entries.value", entry.value);
    }
    return false;
  });
  request.entries.push_back(entry);
  return read;
}

Result<bool> ReadOverride(WireReader& reader, std::optional<RequestedLimit>& limit) {
  if (!limit) limit.emplace();
  return ReadMessage(reader, [&](WireTag tag, WireReader& fields) -> Result<bool> {
    if (tag == WireTag{1, WireType::kVarint}) return ReadNumber(fields, limit->requests_per_unit);
    if (tag == WireTag{2, WireType::kVarint}) return ReadNumber(fields, limit->unit);
    return false;
  });
}

Result<bool> ReadHits(WireReader& reader, std::optional<std::uint64_t>& hits) {
  if (!hits) hits.emplace(0);
  return ReadMessage(reader, [&](WireTag tag, WireReader& fields) -> Result<bool> {
    return tag == WireTag{1, WireType::kVarint} ? ReadNumber(fields, *hits) : false;
  });
}

Result<bool> ReadDescriptor(WireReader& reader, Request& request) {
  RequestedDescriptor descriptor{.first_entry = request.entries.size()};
  auto read = ReadMessage(reader, [&](WireTag tag, WireReader& fields) -> Result<bool> {
    if (tag == WireTag{1, WireType::kBytes}) return ReadEntry(fields, request);
    if (tag == WireTag{2, WireType::kBytes}) return ReadOverride(fields, descriptor.limit);
    if (tag == WireTag{3, WireType::kBytes}) return ReadHits(fields, descriptor.hits);
    if (tag == WireTag{4, WireType::kVarint}) return ReadNumber(fields, descriptor.is_negative);
    return false;
  });
  descriptor.entry_count = request.entries.size() - descriptor.first_entry;
  request.descriptors.push_back(descriptor);
  return read;
}

Result<void> Validate(const Request& request) {
  for (std::size_t i = 0; i < request.descriptors.size(); ++i) {
    const RequestedDescriptor& it = request.descriptors[i];
    if (it.limit && !UnitOfNumber(it.limit->unit)) {
      return InvalidArgument(
          fmt::format("descriptors[{}].limit.unit: {} is not known; allowed are "
                      "1 to {}",
                      i, it.limit->unit, kUnitLengths.size() - 1));
    }
    if (it.hits.value_or(0) > kMaxHits) {
      return InvalidArgument(
          fmt::format("descriptors[{}].hits_addend: {} is too large; allowed "
                      "are 0 to {}",
                      i, *it.hits, kMaxHits));
    }
  }
  return {};
}

}  // namespace

std::uint64_t Request::HitsOf(const RequestedDescriptor& it) const {
  return it.hits.value_or(std::max<std::uint32_t>(1, hits));
}

Result<void> ParseRequest(std::string_view bytes, Request& request) {
  request.domain = {};
  request.entries.clear();
  request.descriptors.clear();
  request.hits = 0;
  auto parsed =
      ForEachField(WireReader(bytes), [&](WireTag tag, WireReader& fields) -> Result<bool> {
        if (tag == WireTag{1, WireType::kBytes}) return ReadText(fields, "domain", request.domain);
        if (tag == WireTag{2, WireType::kBytes}) return ReadDescriptor(fields, request);
        if (tag == WireTag{3, WireType::kVarint}) return ReadNumber(fields, request.hits);
        return false;
      });
  return parsed ? Validate(request) : parsed;
}

}  // namespace sluice::envoy
