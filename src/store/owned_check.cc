#include "store/owned_check.h"

namespace sluice {

OwnedCheck::OwnedCheck(const StoreCheck& check) {
  counters = check.counters;
  demand = check.demand;
  lease = check.lease;
  in_order = check.in_order;
  deadline = check.deadline;
  last_deadline = check.last_deadline;
  admitted = check.admitted;
  decided_at = check.decided_at;
  for (const CounterCheck& counter : counters) keys_ += counter.key;
  limits_.reserve(counters.size());  // so that pointers into it stay valid
  std::size_t begin = 0;
  for (CounterCheck& counter : counters) {
    limits_.push_back(*counter.limit);
    counter.limit = &limits_.back();
    counter.key = std::string_view(keys_).substr(begin, counter.key.size());
    begin += counter.key.size();
  }
}

}  // namespace sluice
