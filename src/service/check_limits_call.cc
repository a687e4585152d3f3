#include "service/check_limits_call.h"

#include <algorithm>

#include "service/checks_parser.h"

namespace sluice {

void CheckLimitsCall::Serve() {
  CheckItem::Terms terms{
      .received = SteadyNow(), .deadline = Deadline(), .in_order = true, .owner = *this};
  if (const auto parsed = ParseChecks(RequestBytes(), checks_); !parsed) {
    return Finish(parsed.error());
  }
  const std::size_t count = checks_.size();
  item_pool_.Fill(items_, count);
  unanswered_.store(count, std::memory_order_relaxed);
  // Once the last one is started, the items may be gone. What one gives back makes room for those
  // behind it, whatever denial this server remembers.
  for (std::size_t i = 0; i < count; ++i) {
    terms.ask_store |= items_[i]->Start(checks_[i], terms);
  }
}

// An item touches its own result only. The last to count down sees those of all.
void CheckLimitsCall::OnAnswered(CheckItem&) {
  if (unanswered_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const grpc::ByteBuffer results = Results();
  item_pool_.TakeBack(items_);
  Finish(results);
}

grpc::ByteBuffer CheckLimitsCall::Results() const {
  std::size_t size = 0;
  for (const auto& item : items_) size += item->result().size();
  grpc::Slice slice(size);
  // A slice is read-only to those it is shared with; this one is not shared yet.
  auto* to = const_cast<std::uint8_t*>(slice.begin());
  for (const auto& item : items_) to = std::copy(item->result().begin(), item->result().end(), to);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace sluice
