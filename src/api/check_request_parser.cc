#include "api/check_request_parser.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/utf8.h"
#include "base/wire_reader.h"

namespace sluice {
namespace {

// Field numbers of CheckLimitRequest.
enum Field : std::uint32_t {
  kDomain = 1,
  kAttributes = 2,
  kCost = 3,
  kMode = 4,
  kMaxWait = 5,
  kRequestId = 6,
  kChargedAt = 7,
  kMaxDelay = 8,
};

// google.protobuf.Duration and Timestamp, which have the same fields.
struct SecondsAndNanos {
  std::int64_t seconds = 0;
  std::int32_t nanos = 0;
};

Error Malformed() { return InvalidArgument("the request is not a valid protobuf message"); }

Error NotUtf8(std::string_view field) {
  return InvalidArgument(fmt::format("{}: not valid UTF-8", field));
}

Result<std::string_view> ReadText(WireReader& reader, std::string_view field) {
  const auto text = reader.ReadBytes();
  if (!text) return Malformed();
  if (!IsValidUtf8(*text)) return NotUtf8(field);
  return *text;
}

class Parser {
 public:
  Parser(std::string_view bytes, CheckRequest& request, std::string_view& request_id)
      : reader_(bytes), request_(request), request_id_(request_id) {}

  Result<void> Parse() {
    while (!reader_.done()) {
      const auto tag = reader_.ReadTag();
      if (!tag) return Malformed();
      if (auto read = ParseField(*tag); !read) return read;
    }
    return Interpret();
  }

 private:
  // A known field with another wire type is treated as unknown.
  Result<void> ParseField(WireTag tag) {
    if (tag == WireTag{kDomain, WireType::kBytes}) return ParseText("domain", request_.domain);
    if (tag == WireTag{kAttributes, WireType::kBytes}) return ParseAttribute();
    if (tag == WireTag{kCost, WireType::kVarint}) return ParseNumber(request_.demand.cost);
    if (tag == WireTag{kMode, WireType::kVarint}) return ParseNumber(mode_);
    if (tag == WireTag{kMaxWait, WireType::kBytes}) return ParseTime(max_wait_);
    if (tag == WireTag{kRequestId, WireType::kBytes}) return ParseText("request_id", request_id_);
    if (tag == WireTag{kChargedAt, WireType::kBytes}) return ParseTime(charged_at_);
    if (tag == WireTag{kMaxDelay, WireType::kBytes}) return ParseTime(max_delay_);
    if (!reader_.Skip(tag)) return Malformed();
    return {};
  }

  Result<void> ParseText(std::string_view field, std::string_view& text) {
    const auto read = ReadText(reader_, field);
    if (!read) return read.error();
    text = *read;
    return {};
  }

  template <typename Number>
  Result<void> ParseNumber(Number& number) {
    const auto read = reader_.ReadVarint();
    if (!read) return Malformed();
    number = static_cast<Number>(*read);
    return {};
  }

  // Repeated occurrences of a field are merged, as protobuf specifies.
  Result<void> ParseTime(std::optional<SecondsAndNanos>& time) {
    const auto bytes = reader_.ReadBytes();
    if (!bytes) return Malformed();
    if (!time) time.emplace();
    WireReader fields(*bytes, reader_.depth() - 1);
    while (!fields.done()) {
      const auto tag = fields.ReadTag();
      if (!tag) return Malformed();
      if (tag->type == WireType::kVarint && (tag->field == 1 || tag->field == 2)) {
        const auto number = fields.ReadVarint();
        if (!number) return Malformed();
        if (tag->field == 1) time->seconds = static_cast<std::int64_t>(*number);
        if (tag->field == 2) time->nanos = static_cast<std::int32_t>(*number);
      } else if (!fields.Skip(*tag)) {
        return Malformed();
      }
    }
    return {};
  }

  Result<void> ParseAttribute() {
    const auto bytes = reader_.ReadBytes();
    if (!bytes) return Malformed();
    Attribute attribute;
    WireReader fields(*bytes, reader_.depth() - 1);
    while (!fields.done()) {
      const auto tag = fields.ReadTag();
      if (!tag) return Malformed();
      if (tag->type == WireType::kBytes && (tag->field == 1 || tag->field == 2)) {
        const auto text = ReadText(fields, "attributes");
        if (!text) return text.error();
        (tag->field == 1 ? attribute.name : attribute.value) = *text;
      } else if (!fields.Skip(*tag)) {
        return Malformed();
      }
    }
    return AddAttribute(attribute);
  }

  // Enforces the limit here instead of in Validate: the search among previous names is only cheap
  // while they are few.
  Result<void> AddAttribute(const Attribute& attribute) {
    auto& attributes = request_.attributes;
    const auto known = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& it) { return it.name == attribute.name; });
    if (known != attributes.end()) {
      known->value = attribute.value;
    } else if (attributes.size() < kMaxAttributes) {
      attributes.push_back(attribute);
    } else {
      return InvalidArgument(
          fmt::format("attributes: more than {} are not allowed", kMaxAttributes));
    }
    return {};
  }

  Result<void> Interpret() {
    if (request_id_.size() > kMaxRequestIdBytes) {
      return InvalidArgument(fmt::format("request_id: {} bytes; at most {} are allowed",
                                         request_id_.size(), kMaxRequestIdBytes));
    }
    // On the wire an enum is an int32, whatever the length of its varint.
    const auto mode = static_cast<std::int32_t>(mode_);
    if (mode < 0 || mode > static_cast<std::int32_t>(Mode::kRefund)) {
      return InvalidArgument(fmt::format("mode: {} is not known; allowed are 0 to {}", mode,
                                         static_cast<int>(Mode::kRefund)));
    }
    if (mode != 0) request_.demand.mode = static_cast<Mode>(mode);
    if (charged_at_ && request_.demand.mode != Mode::kRefund) {
      return InvalidArgument("charged_at: only allowed with MODE_REFUND");
    }
    if (request_.demand.cost == 0) request_.demand.mode = Mode::kPeek;
    if (auto charged_at = InterpretChargedAt(); !charged_at) return charged_at;
    if (max_wait_ && max_delay_) return InvalidArgument("max_delay: not allowed with max_wait");
    request_.demand.only_delays = max_delay_.has_value();
    if (max_delay_) return InterpretWait("max_delay", *max_delay_);
    if (max_wait_) return InterpretWait("max_wait", *max_wait_);
    return {};
  }

  Result<void> InterpretChargedAt() {
    if (!charged_at_) return {};
    const auto [seconds, nanos] = *charged_at_;
    constexpr std::int64_t kLast = 253'402'300'799;  // the year 9999, protobuf's limit
    if (seconds < 0 || seconds > kLast || nanos < 0 || nanos >= 1'000'000'000) {
      return InvalidArgument(fmt::format(
          "charged_at: {} s and {} ns; allowed are the years 1970 to 9999", seconds, nanos));
    }
    request_.demand.charged_at =
        Time(std::chrono::seconds(seconds) +
             std::chrono::floor<Duration>(std::chrono::nanoseconds(nanos)));
    return {};
  }

  Result<void> InterpretWait(std::string_view field, const SecondsAndNanos& wait) {
    const auto [seconds, nanos] = wait;
    constexpr auto kMaxSeconds =
        std::chrono::duration_cast<std::chrono::seconds>(kMaxMaxWait).count();
    const bool in_range = seconds >= 0 && seconds <= kMaxSeconds && nanos >= 0 &&
                          nanos < 1'000'000'000 && (seconds < kMaxSeconds || nanos == 0);
    if (!in_range) {
      return InvalidArgument(
          fmt::format("{}: {} s and {} ns; allowed are 0 to {} s, with 0 to 999999999 ns", field,
                      seconds, nanos, kMaxSeconds));
    }
    request_.demand.max_wait = std::chrono::seconds(seconds) +
                               std::chrono::floor<Duration>(std::chrono::nanoseconds(nanos));
    return {};
  }

  WireReader reader_;
  CheckRequest& request_;
  std::string_view& request_id_;
  std::uint64_t mode_ = 0;
  std::optional<SecondsAndNanos> max_wait_;
  std::optional<SecondsAndNanos> max_delay_;
  std::optional<SecondsAndNanos> charged_at_;
};

}  // namespace

Result<void> ParseCheckRequest(std::string_view bytes, CheckRequest& request,
                               std::string_view& request_id) {
  request.Clear();
  request_id = {};
  return Parser(bytes, request, request_id).Parse();
}

std::string_view FindRequestId(std::string_view bytes) {
  WireReader reader(bytes);
  std::string_view found;
  while (!reader.done()) {
    const auto tag = reader.ReadTag();
    if (!tag) break;
    if (*tag != WireTag{kRequestId, WireType::kBytes}) {
      if (!reader.Skip(*tag)) break;
      continue;
    }
    const auto text = reader.ReadBytes();
    if (!text) break;
    found = *text;
  }
  const bool right = found.size() <= kMaxRequestIdBytes && IsValidUtf8(found);
  return right ? found : std::string_view();
}

}  // namespace sluice
