#include "service/batch_queue.h"

namespace sluice {

void BatchQueue::Add(Batch& batch) {
  batches_.push_back(&batch);
  if (!posted_) Post();
}

void BatchQueue::Post() {
  posted_ = true;
  loop_.Post([this] { Run(); });
}

// A batch without checks left may already have been added again, for another call.
void BatchQueue::Run() {
  std::size_t budget = kChecksPerIteration;
  while (budget > 0 && !batches_.empty()) {
    Batch& batch = *batches_.front();
    batches_.pop_front();
    if (batch.StartSome(budget)) batches_.push_front(&batch);
  }
  posted_ = false;
  if (!batches_.empty()) Post();
}

}  // namespace sluice
