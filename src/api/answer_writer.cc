#include "api/answer_writer.h"

#include <chrono>

#include "api/status.h"
#include "api/wire_writer.h"

namespace sluice {
namespace {

// The field numbers below are those of rate_limiter.proto. Enumerations have the API's numbers; see
// core/vocabulary.h.
template <typename Enum>
std::uint64_t NumberOf(Enum value) {
  return static_cast<std::uint64_t>(value);
}

// A Duration or a Timestamp, which have the same fields.
void WriteTime(WireWriter& to, std::uint32_t field, std::chrono::microseconds time) {
  const std::size_t begin = to.BeginMessage(field);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto nanos = std::chrono::nanoseconds(time - seconds).count();
  if (seconds.count() != 0) to.WriteVarint(1, static_cast<std::uint64_t>(seconds.count()));
  if (nanos != 0) to.WriteVarint(2, static_cast<std::uint64_t>(nanos));
  to.EndMessage(begin);
}

void WriteText(WireWriter& to, std::uint32_t field, std::string_view text) {
  if (!text.empty()) to.WriteBytes(field, text);
}

void WriteLimitStatus(WireWriter& to, const LimitAnswer& from) {
  const Verdict& verdict = from.verdict;
  WriteText(to, 1, from.rule->rule.name);
  if (from.index != 0) to.WriteVarint(2, from.index);
  if (from.algorithm) to.WriteVarint(3, NumberOf(*from.algorithm));
  if (from.state_known) {
    to.WriteVarint(4, static_cast<std::uint64_t>(verdict.limit));
    to.WriteVarint(5, static_cast<std::uint64_t>(verdict.remaining));
  }
  if (!verdict.admitted && verdict.retry_after != Verdict::kNever) {
    WriteTime(to, 6, verdict.retry_after);
  }
  if (from.state_known) WriteTime(to, 7, verdict.reset_after);
  if (verdict.admitted) to.WriteVarint(8, 1);
  if (from.rule->rule.shadow) to.WriteVarint(9, 1);
  to.WriteVarint(10, NumberOf(from.source));
  if (verdict.dropped != 0) to.WriteVarint(11, static_cast<std::uint64_t>(verdict.dropped));
}

void WriteLease(WireWriter& to, const LeaseAnswer& lease) {
  WriteText(to, 1, lease.id);
  WriteTime(to, 2, lease.ttl);
}

void WriteMissingAttribute(WireWriter& to, const MissingAttribute& from) {
  WriteText(to, 1, from.rule->rule.name);
  WriteText(to, 2, from.attribute);
}

void WriteResponse(WireWriter& to, const CheckAnswer& from, std::string_view request_id) {
  to.WriteVarint(1, NumberOf(from.decision));
  if (from.decision == Decision::kAllowed && from.wait > Duration::zero()) {
    WriteTime(to, 2, from.wait);
  }
  if (from.decision == Decision::kDenied && from.retry_after) WriteTime(to, 3, *from.retry_after);
  to.WriteVarint(4, NumberOf(from.source));
  if (from.lease) {
    const std::size_t begin = to.BeginMessage(5);
    WriteLease(to, *from.lease);
    to.EndMessage(begin);
  }
  for (const LimitAnswer& limit : from.limits) {
    const std::size_t begin = to.BeginMessage(6);
    WriteLimitStatus(to, limit);
    to.EndMessage(begin);
  }
  WriteTime(to, 7, from.decided_at.time_since_epoch());
  WriteText(to, 8, request_id);
  for (const MissingAttribute& missing : from.missing_attributes) {
    const std::size_t begin = to.BeginMessage(9);
    WriteMissingAttribute(to, missing);
    to.EndMessage(begin);
  }
  if (from.unknown_domain) to.WriteVarint(10, 1);
}

void WriteError(WireWriter& to, const Error& from, std::string_view request_id) {
  to.WriteVarint(1, NumberOf(ToStatusCode(from.code)));
  WriteText(to, 2, from.message);
  WriteText(to, 3, request_id);
}

}  // namespace

void AppendResponse(const CheckAnswer& answer, std::string_view request_id, std::string& out) {
  WireWriter to(out);
  WriteResponse(to, answer, request_id);
}

void AppendResult(const Result<CheckAnswer>& answer, std::string_view request_id,
                  std::string& out) {
  WireWriter to(out);
  const std::size_t result = to.BeginMessage(1);
  const std::size_t content = to.BeginMessage(answer ? 1 : 2);
  if (answer) {
    WriteResponse(to, *answer, request_id);
  } else {
    WriteError(to, answer.error(), request_id);
  }
  to.EndMessage(content);
  to.EndMessage(result);
}

void AppendLimitStatus(const LimitAnswer& answer, std::string& out) {
  WireWriter to(out);
  WriteLimitStatus(to, answer);
}

void AppendRenewal(Duration ttl, std::string& out) {
  WireWriter to(out);
  WriteTime(to, 1, ttl);
}

}  // namespace sluice
