#include "store/owned_check.h"

namespace sluice {

OwnedCheck::OwnedCheck(const StoreCheck& check) {
  CheckParameters::operator=(check);
  counters = check.counters;
  admitted = check.admitted;
  decided_at = check.decided_at;
  Own();
}

OwnedCheck::OwnedCheck(const StoreCheck& check, const CounterCheck& counter, Mode mode) {
  CheckParameters::operator=(check);
  counters.push_back(counter);
  demand.mode = mode;
  concerns_grants = false;
  Own();
}

void OwnedCheck::GiveBackAll() {
  demand = {.mode = Mode::kSettle};
  for (CounterCheck& counter : counters) counter.units = 0;
}

// Nobody waits for the copy, so it has no deadline.
void OwnedCheck::Own() {
  in_order = false;
  deadline = last_deadline = SteadyTime::max();
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
