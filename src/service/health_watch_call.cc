#include "service/health_watch_call.h"

#include <utility>

#include "service/call_pool.h"

namespace sluice {

void HealthWatchCall::RequestNext(void* tag) {
  context_.emplace();
  context_->AsyncNotifyWhenDone(done_.Arm());
  writer_.emplace(&*context_);
  auto& queue = pool().queue();
  service_.RequestWatch(&*context_, &request_, &*writer_, &queue, &queue, tag);
}

void HealthWatchCall::LetGo() {
  const MutexLock lock(mutex_);
  progress_ = Progress{};
  writer_.reset();
  context_.reset();
}

// The name, as long as its caller liked, is not kept while the RPC lasts.
void HealthWatchCall::Serve() {
  const HealthService::Request request = std::exchange(request_, {});
  service_.Watch(request.service(), *this);
  const MutexLock lock(mutex_);
  progress_.open = true;
  Advance();
}

void HealthWatchCall::Drain() {
  const MutexLock lock(mutex_);
  if (!progress_.open) return;
  End({grpc::StatusCode::UNAVAILABLE, "this server is shutting down"});
}

void HealthWatchCall::OnStatus(HealthService::Status status) {
  const MutexLock lock(mutex_);
  progress_.status = status;
  Advance();
}

void HealthWatchCall::OnWritten(bool ok) {
  const MutexLock lock(mutex_);
  progress_.writing = false;
  if (!ok) return End(grpc::Status::CANCELLED);
  Advance();
}

// This and OnDone come in any order: the later one leaves.
void HealthWatchCall::OnFinished(bool) {
  bool over = false;
  {
    const MutexLock lock(mutex_);
    progress_.finished = true;
    over = progress_.over();
  }
  if (over) LeaveUnwatched();
}

void HealthWatchCall::OnDone(bool) {
  bool over = false;
  {
    const MutexLock lock(mutex_);
    progress_.done = true;
    over = progress_.over();
    End(grpc::Status::CANCELLED);
  }
  if (over) LeaveUnwatched();
}

void HealthWatchCall::LeaveUnwatched() {
  service_.Unwatch(*this);
  Leave();
}

void HealthWatchCall::Advance() {
  Progress& now = progress_;
  if (!now.open || now.writing || now.finishing) return;
  if (now.status) {
    now.writing = true;
    Write(*std::exchange(now.status, std::nullopt));
  } else if (now.end) {
    now.finishing = true;
    writer_->Finish(*now.end, finished_.Arm());
  }
}

void HealthWatchCall::End(const grpc::Status& status) {
  if (!progress_.end) progress_.end = status;
  Advance();
}

void HealthWatchCall::Write(HealthService::Status status) {
  HealthService::Response response;
  response.set_status(status);
  writer_->Write(response, written_.Arm());
}

}  // namespace sluice
