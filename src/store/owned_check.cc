#include "store/owned_check.h"

namespace sluice {

void CopyDemands(const StoreCheck& from, StoreCheck& to) {
  to.demand = from.demand;
  to.lease = from.lease;
  to.in_order = from.in_order;
  to.deadline = from.deadline;
  to.last_deadline = from.last_deadline;
}

OwnedCheck::OwnedCheck(const StoreCheck& check) {
  CopyDemands(check, *this);
  counters = check.counters;
  admitted = check.admitted;
  decided_at = check.decided_at;
  for (const CounterCheck& counter : counters) keys_ += counter.key;
  limits_.reserve(counters.size());  // so that pointers into it remain valid
  std::size_t begin = 0;
  for (CounterCheck& counter : counters) {
    limits_.push_back(*counter.limit);
    counter.limit = &limits_.back();
    counter.key = std::string_view(keys_).substr(begin, counter.key.size());
    begin += counter.key.size();
  }
}

}  // namespace sluice
