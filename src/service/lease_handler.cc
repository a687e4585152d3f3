#include "service/lease_handler.h"

#include <utility>

#include <fmt/format.h>

#include "api/answer_writer.h"
#include "api/check_message.h"
#include "api/received_message.h"

namespace sluice {

void LeaseHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  const Caller* known = nullptr;
  if (access_ != nullptr) {
    const auto caller = access_->Identify(call);
    if (!caller) return Finish(ToStatus(caller.error()));
    known = *caller;
  }
  const bool parsed = Parse(bytes);
  if (known != nullptr) {
    const auto may = access_->MayUseLease(*known, message_.lease_id());
    if (!may) return Finish(ToStatus(may.error()));
  }
  if (!parsed) {
    const auto* const type = action_ == Action::kSettle ? v1::SettleLeaseRequest::descriptor()
                                                        : v1::ReleaseLeaseRequest::descriptor();
    return Finish(ToStatus(MalformedMessage(*type, bytes)));
  }
  Usage usage{.amounts = amounts_};
  if (message_.has_cost()) usage.cost = static_cast<std::int64_t>(message_.cost());
  if (const auto valid = InterpretHold(usage); !valid) return Finish(ToStatus(valid.error()));
  Start(action_, message_.lease_id(), call.deadline(), usage);
}

bool LeaseHandler::Parse(std::string_view bytes) {
  message_.Clear();
  amounts_.clear();
  if (action_ != Action::kSettle) {
    v1::ReleaseLeaseRequest message;  // also parses a RenewLeaseRequest: it has only lease_id
    const bool parsed = ParseMessage(bytes, message);
    message_.set_lease_id(std::move(*message.mutable_lease_id()));
    message_.set_hold_outcome(message.hold_outcome());
    if (message.has_duration()) *message_.mutable_duration() = message.duration();
    return parsed;
  }
  const bool parsed = ParseMessage(bytes, message_);
  for (const auto& [name, value] : message_.amounts()) {
    amounts_.push_back({name, static_cast<std::int64_t>(value)});
  }
  return parsed;
}

Result<void> LeaseHandler::InterpretHold(Usage& usage) const {
  const int outcome = message_.hold_outcome();
  if (outcome < 0 || outcome > v1::HOLD_OUTCOME_IGNORE) {
    return InvalidArgument(fmt::format("hold_outcome: {} is not known; allowed are 0 to {}",
                                       outcome, static_cast<int>(v1::HOLD_OUTCOME_IGNORE)));
  }
  if (outcome != 0) usage.outcome = static_cast<HoldOutcome>(outcome);
  if (!message_.has_duration()) return {};
  return InterpretDuration("duration", message_.duration(), usage.duration);
}

// A ReleaseLeaseResponse is empty.
void LeaseHandler::OnLease(const Result<LeaseReport>& report) {
  message_ = {};
  if (!report) return Finish(ToStatus(report.error()));
  response_.clear();
  if (action_ == Action::kRenew) AppendRenewal(report->ttl, response_);
  if (action_ == Action::kSettle) AppendSettlement(*report, response_);
  Finish(response_);
}

}  // namespace sluice
