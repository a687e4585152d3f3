#include "api/check_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <sluice/internal/check_limit_request.pb.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "api/malformed_message.h"
#include "base/text.h"

namespace sluice {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::uint32_t kChecks =
    WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

Error MalformedChecks() { return InvalidArgument("checks: not a valid protobuf message"); }

// Release frees the memory of a larger message.
constexpr std::size_t kMaxKeptBytes = 4096;

Result<void> InterpretMode(const internal::CheckLimitRequest& from, Demand& to) {
  const std::int32_t mode = from.mode();
  if (mode < 0 || mode > static_cast<int>(Mode::kRefund)) {
    return InvalidArgument(fmt::format("mode: {} is not known; allowed are 0 to {}", mode,
                                       static_cast<int>(Mode::kRefund)));
  }
  if (mode != 0) to.mode = static_cast<Mode>(mode);
  if (from.has_charged_at() && to.mode != Mode::kRefund) {
    return InvalidArgument("charged_at: only allowed with MODE_REFUND");
  }
  if (from.has_lease_ttl() && to.mode != Mode::kConsume) {
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

// Enforces `most` here instead of in Validate, because the search among the previous names is cheap
// only while there are few of them.
template <typename Entries, typename Item>
Result<void> InterpretMap(std::string_view field, const Entries& from, std::size_t most,
                          std::vector<Item>& to) {
  for (const auto& entry : from) {
    using Value = decltype(Item::value);
    const auto known = std::ranges::find(to, entry.key(), &Item::name);
    if (known != to.end()) {
      known->value = static_cast<Value>(entry.value());
    } else if (to.size() < most) {
      to.push_back({entry.key(), static_cast<Value>(entry.value())});
    } else {
      return InvalidArgument(fmt::format("{}: more than {} are not allowed", field, most));
    }
  }
  return {};
}

Result<void> InterpretWait(const internal::CheckLimitRequest& from, Demand& to) {
  if (from.has_max_wait() && from.has_max_delay()) {
    return InvalidArgument("max_delay: not allowed with max_wait");
  }
  to.only_delays = from.has_max_delay();
  if (from.has_max_delay()) return InterpretDuration("max_delay", from.max_delay(), to.max_wait);
  if (!from.has_max_wait()) return {};
  return InterpretDuration("max_wait", from.max_wait(), to.max_wait);
}

Result<void> Interpret(const internal::CheckLimitRequest& from, CheckRequest& to) {
  if (const std::size_t size = from.request_id().size(); size > kMaxRequestIdBytes) {
    return InvalidArgument(
        fmt::format("request_id: {} bytes; at most {} are allowed", size, kMaxRequestIdBytes));
  }
  to.domain = from.domain();
  auto attributes = InterpretMap("attributes", from.attributes(), kMaxAttributes, to.attributes);
  if (!attributes) return attributes;
  if (auto mode = InterpretMode(from, to.demand); !mode) return mode;
  auto amounts = InterpretMap("amounts", from.amounts(), kMaxAmounts, to.amounts);
  if (!amounts) return amounts;
  if (from.has_cost()) to.cost = static_cast<std::int64_t>(from.cost());
  if (to.TakesNothing()) to.demand.mode = Mode::kPeek;
  if (from.has_charged_at()) {
    if (auto at = InterpretChargedAt(from.charged_at(), to.demand); !at) return at;
  }
  if (from.has_lease_ttl()) {
    auto ttl = InterpretDuration("lease_ttl", from.lease_ttl(), to.lease_ttl);
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

// Many checks wait at a time. If each had a generated message, whose texts are separate objects,
// the messages would not fit into the cache. So the thread has one message, and each check has a
// copy of its own texts, which together are no longer than `bytes`.
Result<void> CheckMessage::Parse(std::string_view bytes, CheckRequest& request) {
  thread_local internal::CheckLimitRequest message;
  request.Clear();
  request_id_ = {};
  texts_.clear();
  texts_.reserve(bytes.size());
  Result<void> result;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    result = Interpret(message, request);
    if (message.request_id().size() <= kMaxRequestIdBytes) request_id_ = Keep(message.request_id());
    request.domain = Keep(request.domain);
    for (Attribute& it : request.attributes) it = {Keep(it.name), Keep(it.value)};
    for (Amount& it : request.amounts) it.name = Keep(it.name);
  } else {
    result = MalformedMessage(*v1::CheckLimitRequest::descriptor(), bytes);
    RecoverRequestId(bytes);
  }
  if (bytes.size() > kMaxKeptBytes) message = internal::CheckLimitRequest();
  return result;
}

// REQUIRES: texts_ has room for `text`, so that earlier views stay valid.
std::string_view CheckMessage::Keep(std::string_view text) {
  const std::size_t begin = texts_.size();
  texts_ += text;
  return std::string_view(texts_).substr(begin);
}

// The parser stops at the first error, so it may not have reached the request_id.
void CheckMessage::RecoverRequestId(std::string_view bytes) {
  google::protobuf::UnknownFieldSet fields;
  ReadFields(bytes, fields);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() == internal::CheckLimitRequest::kRequestIdFieldNumber &&
        field.type() == field.TYPE_LENGTH_DELIMITED) {
      texts_ = field.length_delimited();
    }
  }
  if (texts_.size() <= kMaxRequestIdBytes && IsValidUtf8(texts_)) request_id_ = texts_;
}

void CheckMessage::Release() {
  if (texts_.capacity() > kMaxKeptBytes) std::string().swap(texts_);
}

// Does not use the generated parser, which would refuse all checks because of an error in one of
// them.
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
