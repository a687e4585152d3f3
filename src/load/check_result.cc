#include "load/check_result.h"

#include <chrono>

#include "base/wire_reader.h"

namespace sluice::load {
namespace {

bool ReadNumber(WireReader& reader, std::int32_t& number) {
  const auto read = reader.ReadVarint();
  if (!read) return false;
  number = static_cast<std::int32_t>(*read);
  return true;
}

bool ReadText(WireReader& reader, std::string_view& text) {
  const auto read = reader.ReadBytes();
  if (!read) return false;
  text = *read;
  return true;
}

// Reads a google.protobuf.Duration, rounded up to whole microseconds.
bool ReadDuration(WireReader& reader, std::optional<Duration>& duration) {
  constexpr WireTag kSeconds{1, WireType::kVarint};
  constexpr WireTag kNanos{2, WireType::kVarint};
  const auto bytes = reader.ReadBytes();
  if (!bytes) return false;
  std::chrono::nanoseconds sum{};
  for (WireReader fields(*bytes, reader.depth() - 1); !fields.done();) {
    const auto tag = fields.ReadTag();
    if (!tag) return false;
    if (*tag != kSeconds && *tag != kNanos) {
      if (!fields.Skip(*tag)) return false;
      continue;
    }
    const auto number = fields.ReadVarint();
    if (!number) return false;
    const auto value = static_cast<std::int64_t>(*number);
    sum += *tag == kSeconds ? std::chrono::seconds(value) : std::chrono::nanoseconds(value);
  }
  duration = std::chrono::ceil<Duration>(sum);
  return true;
}

bool ReadResponseField(WireReader& reader, WireTag tag, CheckResult& result) {
  constexpr WireTag kDecision{1, WireType::kVarint};
  constexpr WireTag kWait{2, WireType::kBytes};
  constexpr WireTag kSource{4, WireType::kVarint};
  constexpr WireTag kRequestId{8, WireType::kBytes};
  if (tag == kDecision) return ReadNumber(reader, result.decision);
  if (tag == kWait) return ReadDuration(reader, result.wait);
  if (tag == kSource) return ReadNumber(reader, result.source);
  if (tag == kRequestId) return ReadText(reader, result.request_id);
  return reader.Skip(tag);
}

bool ReadErrorField(WireReader& reader, WireTag tag, CheckResult& result) {
  constexpr WireTag kCode{1, WireType::kVarint};
  constexpr WireTag kMessage{2, WireType::kBytes};
  constexpr WireTag kRequestId{3, WireType::kBytes};
  if (tag == kCode) return ReadNumber(reader, result.code);
  if (tag == kMessage) return ReadText(reader, result.message);
  if (tag == kRequestId) return ReadText(reader, result.request_id);
  return reader.Skip(tag);
}

// Reads the fields of a message into `result`. If a field occurs twice, the last one wins.
template <typename ReadField>
bool ReadFields(WireReader reader, CheckResult& result, ReadField read_field) {
  while (!reader.done()) {
    const auto tag = reader.ReadTag();
    if (!tag || !read_field(reader, *tag, result)) return false;
  }
  return true;
}

// A CheckLimitResult is a oneof: the last member wins.
bool ReadResultField(WireReader& reader, WireTag tag, CheckResult& result) {
  constexpr WireTag kResponse{1, WireType::kBytes};
  constexpr WireTag kError{2, WireType::kBytes};
  if (tag != kResponse && tag != kError) return reader.Skip(tag);
  const auto bytes = reader.ReadBytes();
  if (!bytes) return false;
  const bool is_error = tag == kError;
  if (result.is_error != is_error) result = {.is_error = is_error};
  const WireReader fields(*bytes, reader.depth() - 1);
  return is_error ? ReadFields(fields, result, ReadErrorField)
                  : ReadFields(fields, result, ReadResponseField);
}

}  // namespace

bool ReadResponse(std::string_view bytes, CheckResult& result) {
  result = {};
  return ReadFields(WireReader(bytes), result, ReadResponseField);
}

bool ReadResults(std::string_view bytes, std::vector<CheckResult>& results) {
  constexpr WireTag kResult{1, WireType::kBytes};
  results.clear();
  WireReader reader(bytes);
  while (!reader.done()) {
    const auto tag = reader.ReadTag();
    if (!tag) return false;
    if (*tag != kResult) {
      if (!reader.Skip(*tag)) return false;
      continue;
    }
    const auto result = reader.ReadBytes();
    if (!result) return false;
    const WireReader fields(*result, reader.depth() - 1);
    if (!ReadFields(fields, results.emplace_back(), ReadResultField)) return false;
  }
  return true;
}

}  // namespace sluice::load
