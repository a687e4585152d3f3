#include "api/check_message.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "api/received_message.h"
#include "api/wire_reader.h"
#include "base/text.h"

namespace sluice {
namespace {

// Release frees the memory of a larger message.
constexpr std::size_t kMaxKeptBytes = 4096;

// The fields of a CheckLimitRequest that a CheckRequest lacks, or holds in another form.
struct OtherFields {
  std::string_view request_id;
  std::uint32_t mode = 0;
  std::optional<google::protobuf::Duration> max_wait;
  std::optional<google::protobuf::Duration> max_delay;
  std::optional<google::protobuf::Duration> lease_ttl;
  std::optional<google::protobuf::Timestamp> charged_at;
};

bool ReadText(CodedInputStream& input, std::string_view& text) {
  return ReadBytes(input, text) && IsValidUtf8(text);
}

bool ReadValue(CodedInputStream& input, std::uint32_t tag, std::string_view& value) {
  return tag == BytesTag(2) ? ReadText(input, value) : WireFormatLite::SkipField(&input, tag);
}

bool ReadValue(CodedInputStream& input, std::uint32_t tag, std::int64_t& value) {
  if (tag != NumberTag(2)) return WireFormatLite::SkipField(&input, tag);
  std::uint64_t number = 0;
  if (!input.ReadVarint64(&number)) return false;
  value = static_cast<std::int64_t>(number);
  return true;
}

// Reads an entry of a map into `to`. If a name occurs twice, the last value is used. Returns false
// if there are more than `most` names, so that no more entries are read.
template <typename Item>
bool ReadEntry(CodedInputStream& input, int& left, std::size_t most, std::vector<Item>& to) {
  std::string_view bytes;
  Item item{};
  const auto read = [&item](std::uint32_t tag, CodedInputStream& entry) {
    return tag == BytesTag(1) ? ReadText(entry, item.name) : ReadValue(entry, tag, item.value);
  };
  if (!ReadBytes(input, bytes) || !ForEachField(bytes, left, read)) return false;
  const auto known = std::ranges::find(to, item.name, &Item::name);
  if (known != to.end()) {
    known->value = item.value;
  } else {
    to.push_back(item);
  }
  return to.size() <= most;
}

// If the field occurs twice, the two messages are merged.
template <typename Message>
bool ReadMessage(CodedInputStream& input, std::optional<Message>& to) {
  std::string_view bytes;
  if (!ReadBytes(input, bytes)) return false;
  if (!to) to.emplace();
  CodedInputStream message = InputOf(bytes);
  return to->MergePartialFromCodedStream(&message) && message.ConsumedEntireMessage();
}

bool ReadRequest(std::string_view bytes, CheckRequest& to, OtherFields& others) {
  using Field = v1::CheckLimitRequest;
  int left = kMaxFields;
  return ForEachField(bytes, left, [&](std::uint32_t tag, CodedInputStream& input) {
    std::uint64_t number = 0;
    switch (tag) {
      case BytesTag(Field::kDomainFieldNumber):
        return ReadText(input, to.domain);
      case BytesTag(Field::kAttributesFieldNumber):
        return ReadEntry(input, left, kMaxAttributes, to.attributes);
      case NumberTag(Field::kCostFieldNumber):
        if (!input.ReadVarint64(&number)) return false;
        to.cost = static_cast<std::int64_t>(number);
        return true;
      case NumberTag(Field::kModeFieldNumber):
        return input.ReadVarint32(&others.mode);
      case BytesTag(Field::kMaxWaitFieldNumber):
        return ReadMessage(input, others.max_wait);
      case BytesTag(Field::kRequestIdFieldNumber):
        return ReadText(input, others.request_id);
      case BytesTag(Field::kChargedAtFieldNumber):
        return ReadMessage(input, others.charged_at);
      case BytesTag(Field::kMaxDelayFieldNumber):
        return ReadMessage(input, others.max_delay);
      case BytesTag(Field::kAmountsFieldNumber):
        return ReadEntry(input, left, kMaxAmounts, to.amounts);
      case BytesTag(Field::kLeaseTtlFieldNumber):
        return ReadMessage(input, others.lease_ttl);
      default:
        return WireFormatLite::SkipField(&input, tag);
    }
  });
}

Result<void> InterpretMode(const OtherFields& from, Demand& to) {
  const auto mode = static_cast<std::int32_t>(from.mode);
  if (mode < 0 || mode > static_cast<int>(Mode::kRefund)) {
    return InvalidArgument(fmt::format("mode: {} is not known; allowed are 0 to {}", mode,
                                       static_cast<int>(Mode::kRefund)));
  }
  if (mode != 0) to.mode = static_cast<Mode>(mode);
  if (from.charged_at && to.mode != Mode::kRefund) {
    return InvalidArgument("charged_at: only allowed with MODE_REFUND");
  }
  if (from.lease_ttl && to.mode != Mode::kConsume) {
    return InvalidArgument("lease_ttl: only allowed with MODE_CONSUME");
  }
  return {};
}

Result<void> InterpretChargedAt(const google::protobuf::Timestamp& from, Demand& to) {
  constexpr std::int64_t kLast = 253'402'300'799;  // the year 9999, protobuf's limit
  if (from.seconds() < 0 || from.seconds() > kLast || from.nanos() < 0 ||
      from.nanos() >= 1'000'000'000) {
    return InvalidArgument(
        fmt::format("charged_at: {} s and {} ns; allowed are the years 1970 to 9999",
                    from.seconds(), from.nanos()));
  }
  to.charged_at = Time(std::chrono::seconds(from.seconds()) +
                       std::chrono::floor<Duration>(std::chrono::nanoseconds(from.nanos())));
  return {};
}

Result<void> InterpretWait(const OtherFields& from, Demand& to) {
  if (from.max_wait && from.max_delay) {
    return InvalidArgument("max_delay: not allowed with max_wait");
  }
  to.only_delays = from.max_delay.has_value();
  if (from.max_delay) return InterpretDuration("max_delay", *from.max_delay, to.max_wait);
  if (!from.max_wait) return {};
  return InterpretDuration("max_wait", *from.max_wait, to.max_wait);
}

Error TooMany(std::string_view field, std::size_t most) {
  return InvalidArgument(fmt::format("{}: more than {} are not allowed", field, most));
}

Result<void> Interpret(const OtherFields& from, CheckRequest& to) {
  if (const std::size_t size = from.request_id.size(); size > kMaxRequestIdBytes) {
    return InvalidArgument(
        fmt::format("request_id: {} bytes; at most {} are allowed", size, kMaxRequestIdBytes));
  }
  if (auto mode = InterpretMode(from, to.demand); !mode) return mode;
  if (to.TakesNothing()) to.demand.mode = Mode::kPeek;
  if (from.charged_at) {
    if (auto at = InterpretChargedAt(*from.charged_at, to.demand); !at) return at;
  }
  if (from.lease_ttl) {
    auto ttl = InterpretDuration("lease_ttl", *from.lease_ttl, to.lease_ttl);
    if (!ttl) return ttl;
  }
  return InterpretWait(from, to.demand);
}

}  // namespace

Result<void> InterpretDuration(std::string_view field, const google::protobuf::Duration& from,
                               std::optional<Duration>& to) {
  constexpr auto kMaxSeconds =
      std::chrono::duration_cast<std::chrono::seconds>(kMaxMaxWait).count();
  const bool in_range = from.seconds() >= 0 && from.seconds() <= kMaxSeconds && from.nanos() >= 0 &&
                        from.nanos() < 1'000'000'000 &&
                        (from.seconds() < kMaxSeconds || from.nanos() == 0);
  if (!in_range) {
    return InvalidArgument(
        fmt::format("{}: {} s and {} ns; allowed are 0 to {} s, with 0 to 999999999 ns", field,
                    from.seconds(), from.nanos(), kMaxSeconds));
  }
  to = std::chrono::seconds(from.seconds()) +
       std::chrono::floor<Duration>(std::chrono::nanoseconds(from.nanos()));
  return {};
}

Result<void> CheckMessage::Parse(std::string_view bytes, CheckRequest& request) {
  request.Clear();
  request_id_ = {};
  bytes_ = bytes;
  OtherFields others;
  if (!ReadRequest(bytes_, request, others)) {
    const bool many_attributes = request.attributes.size() > kMaxAttributes;
    const bool many_amounts = request.amounts.size() > kMaxAmounts;
    request.Clear();
    RecoverRequestId(bytes);
    if (many_attributes) return TooMany("attributes", kMaxAttributes);
    if (many_amounts) return TooMany("amounts", kMaxAmounts);
    return MalformedMessage(*v1::CheckLimitRequest::descriptor(), bytes);
  }
  if (others.request_id.size() <= kMaxRequestIdBytes) request_id_ = others.request_id;
  return Interpret(others, request);
}

// ReadRequest stops at the first error, so it may not have reached the request_id.
void CheckMessage::RecoverRequestId(std::string_view bytes) {
  bytes_.clear();
  google::protobuf::UnknownFieldSet fields;
  ReadFields(bytes, fields);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == v1::CheckLimitRequest::kRequestIdFieldNumber &&
        field.type() == field.TYPE_LENGTH_DELIMITED) {
      bytes_ = field.length_delimited();
    }
  }
  if (bytes_.size() <= kMaxRequestIdBytes && IsValidUtf8(bytes_)) request_id_ = bytes_;
}

void CheckMessage::Release() {
  if (bytes_.capacity() > kMaxKeptBytes) std::string().swap(bytes_);
}

// Does not use the generated parser, which would refuse all checks because of an error in one of
// them.
Result<void> ParseChecks(std::string_view bytes, std::vector<std::string_view>& checks) {
  checks.clear();
  const auto read = [&](std::uint32_t tag, CodedInputStream& input) {
    if (tag != BytesTag(v1::CheckLimitsRequest::kChecksFieldNumber)) {
      return WireFormatLite::SkipField(&input, tag);
    }
    std::string_view check;
    if (!ReadBytes(input, check)) return false;
    checks.push_back(check);
    return checks.size() <= kMaxChecksPerMessage;
  };
  int left = kMaxFields;
  const bool well_formed = ForEachField(bytes, left, read);
  if (checks.size() > kMaxChecksPerMessage) return TooMany("checks", kMaxChecksPerMessage);
  if (!well_formed) return InvalidArgument("checks: not a valid protobuf message");
  if (checks.empty()) {
    return InvalidArgument(
        fmt::format("checks: is empty; 1 to {} are allowed", kMaxChecksPerMessage));
  }
  return {};
}

}  // namespace sluice
