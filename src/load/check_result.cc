#include "load/check_result.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "client/duration.h"

namespace sluice::load {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The tag of a number field. rate_limiter.proto has the field numbers.
constexpr std::uint32_t NumberTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}
// The tag of a text or message field.
constexpr std::uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// Reads the fields of a message: `read_field` reads or skips the value that follows a tag.
template <typename ReadField>
bool ReadFields(std::string_view bytes, ReadField read_field) {
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = input.ReadTag()) {
    if (!read_field(input, tag)) return false;
  }
  return input.ConsumedEntireMessage();
}

template <typename Number>
bool ReadNumber(CodedInputStream& input, Number& number) {
  std::uint64_t read = 0;
  if (!input.ReadVarint64(&read)) return false;
  number = static_cast<Number>(read);
  return true;
}

bool ReadBytes(CodedInputStream& input, std::string_view& bytes) {
  int size = 0;
  if (!input.ReadVarintSizeAsInt(&size)) return false;
  const void* data = nullptr;
  int available = 0;
  input.GetDirectBufferPointerInline(&data, &available);
  bytes = {static_cast<const char*>(data), static_cast<std::size_t>(size)};
  return input.Skip(size);
}

// Reads a google.protobuf.Duration, rounded up to whole microseconds.
bool ReadDuration(CodedInputStream& input, std::optional<Duration>& duration) {
  std::string_view bytes;
  google::protobuf::Duration read;
  if (!ReadBytes(input, bytes)) return false;
  if (!read.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  duration = ToDuration(read);
  return true;
}

bool ReadResponseField(CodedInputStream& input, std::uint32_t tag, CheckResult& result) {
  constexpr std::uint32_t kDecision = NumberTag(1);
  constexpr std::uint32_t kWait = BytesTag(2);
  constexpr std::uint32_t kSource = NumberTag(4);
  constexpr std::uint32_t kRequestId = BytesTag(8);
  if (tag == kDecision) return ReadNumber(input, result.decision);
  if (tag == kWait) return ReadDuration(input, result.wait);
  if (tag == kSource) return ReadNumber(input, result.source);
  if (tag == kRequestId) return ReadBytes(input, result.request_id);
  return WireFormatLite::SkipField(&input, tag);
}

bool ReadErrorField(CodedInputStream& input, std::uint32_t tag, CheckResult& result) {
  constexpr std::uint32_t kCode = NumberTag(1);
  constexpr std::uint32_t kMessage = BytesTag(2);
  constexpr std::uint32_t kRequestId = BytesTag(3);
  if (tag == kCode) return ReadNumber(input, result.code);
  if (tag == kMessage) return ReadBytes(input, result.message);
  if (tag == kRequestId) return ReadBytes(input, result.request_id);
  return WireFormatLite::SkipField(&input, tag);
}

// A CheckLimitResult is a oneof: the last member wins.
bool ReadResultField(CodedInputStream& input, std::uint32_t tag, CheckResult& result) {
  constexpr std::uint32_t kResponse = BytesTag(1);
  constexpr std::uint32_t kError = BytesTag(2);
  const bool is_error = tag == kError;
  if (!is_error && tag != kResponse) return WireFormatLite::SkipField(&input, tag);
  std::string_view bytes;
  if (!ReadBytes(input, bytes)) return false;
  if (result.is_error != is_error) result = {.is_error = is_error};
  return ReadFields(bytes, [&](CodedInputStream& fields, std::uint32_t field) {
    return is_error ? ReadErrorField(fields, field, result)
                    : ReadResponseField(fields, field, result);
  });
}

}  // namespace

bool ReadResponse(std::string_view bytes, CheckResult& result) {
  result = {};
  return ReadFields(bytes, [&](CodedInputStream& input, std::uint32_t tag) {
    return ReadResponseField(input, tag, result);
  });
}

bool ReadResults(std::string_view bytes, std::vector<CheckResult>& results) {
  results.clear();
  return ReadFields(bytes, [&](CodedInputStream& input, std::uint32_t tag) {
    constexpr std::uint32_t kResults = BytesTag(1);
    if (tag != kResults) return WireFormatLite::SkipField(&input, tag);
    std::string_view result;
    return ReadBytes(input, result) &&
           ReadFields(result, [&, &read = results.emplace_back()](CodedInputStream& fields,
                                                                  std::uint32_t field) {
             return ReadResultField(fields, field, read);
           });
  });
}

}  // namespace sluice::load
