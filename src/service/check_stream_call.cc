#include "service/check_stream_call.h"

#include <utility>

#include "service/api_codec.h"
#include "service/byte_buffer.h"
#include "service/call_pool.h"
#include "service/checks_parser.h"

namespace sluice {
namespace {

// A frame stays well below the 4 MiB that gRPC's clients accept.
constexpr std::size_t kMaxFrameBytes = 1024 * 1024;

}  // namespace

void CheckStreamCall::RequestNext(void* tag) {
  context_.emplace();
  stream_.emplace(&*context_);
  auto& queue = pool().queue();
  service_.RequestCheckLimitStream(&*context_, &*stream_, &queue, &queue, tag);
}

void CheckStreamCall::LetGo() {
  const MutexLock lock(mutex_);
  progress_ = Progress{};
  stream_.reset();
  context_.reset();
  frame_.Clear();
}

void CheckStreamCall::Serve() {
  const MutexLock lock(mutex_);
  progress_.open = true;
  Advance();
}

void CheckStreamCall::Drain() {
  const MutexLock lock(mutex_);
  if (!progress_.open) return;
  End({grpc::StatusCode::UNAVAILABLE,
       "this server is shutting down; what has no result has not been decided"});
  Advance();
}

void CheckStreamCall::OnRead(bool ok) {
  grpc::Slice piece;
  if (ok && Accept(piece)) StartChecks();
  {
    const MutexLock lock(mutex_);
    if (!ok) End(grpc::Status::OK);  // or the caller is gone, and hears no status
    progress_.reading = progress_.starting = false;
    Advance();
  }
  LeaveIfOver();
}

bool CheckStreamCall::Accept(grpc::Slice& piece) {
  const MutexLock lock(mutex_);
  if (progress_.ended) return false;  // the server drains
  if (const auto parsed = ParseChecks(InOnePiece(frame_, piece), checks_); !parsed) {
    End(ToStatus(parsed.error()));
    return false;
  }
  progress_.starting = true;
  progress_.open_checks += checks_.size();
  progress_.under_way += checks_.size();
  for (const std::string_view check : checks_) progress_.open_bytes += check.size();
  frame_.Clear();
  return true;
}

// Items keep a copy of their part of the frame: views would keep all of it as long as its slowest
// check. An item under way belongs to nobody, until OnAnswered.
void CheckStreamCall::StartChecks() {
  const CheckItem::Terms terms{
      .received = SteadyNow(), .deadline = ToSteadyTime(context_->raw_deadline()), .owner = *this};
  CheckItemPool::Items items;
  {
    const MutexLock lock(mutex_);
    items.swap(answered_);
  }
  item_pool_.Fill(items, checks_.size());
  for (const std::string_view check : checks_) {
    CheckItem* const item = items.back().release();
    items.pop_back();
    item->Start(item->Keep(check), terms);
  }
  item_pool_.TakeBack(items);
}

void CheckStreamCall::OnAnswered(CheckItem& item) {
  const MutexLock lock(mutex_);
  answered_.emplace_back(&item);
  progress_.open_bytes -= item.kept_bytes();
  --progress_.under_way;
  AddResult(item.result());
  if (progress_.under_way == 0) item_pool_.TakeBack(answered_);
  Advance();
}

void CheckStreamCall::OnWritten(bool ok) {
  const MutexLock lock(mutex_);
  progress_.open_checks -= progress_.writing->results;
  progress_.open_bytes -= progress_.writing->bytes.size();
  progress_.writing.reset();
  if (!ok) {
    progress_.broken = true;
    End(grpc::Status::CANCELLED);
  }
  Advance();
}

void CheckStreamCall::OnFinished(bool) {
  {
    const MutexLock lock(mutex_);
    progress_.finished = true;
  }
  LeaveIfOver();
}

// A read that was under way when the stream was finished fails, before or after.
void CheckStreamCall::LeaveIfOver() {
  {
    const MutexLock lock(mutex_);
    if (!progress_.finished || progress_.reading || std::exchange(progress_.left, true)) return;
  }
  Leave();
}

void CheckStreamCall::Advance() {
  Progress& now = progress_;
  if (now.starting || now.finishing) return;
  if (now.broken) now.frames.clear();
  if (!now.writing && !now.frames.empty()) Write();
  const bool has_room = now.open_checks < kMaxOpenChecks && now.open_bytes < kMaxOpenBytes;
  if (!now.ended && !now.reading && has_room) {
    now.reading = true;
    stream_->Read(&frame_, read_.Arm());
  }
  if (now.ended && now.under_way == 0 && !now.writing) {
    now.finishing = true;
    stream_->Finish(now.status, finished_.Arm());
  }
}

void CheckStreamCall::End(grpc::Status status) {
  if (std::exchange(progress_.ended, true)) return;
  progress_.status = std::move(status);
}

void CheckStreamCall::AddResult(const std::string& result) {
  auto& frames = progress_.frames;
  const bool fits = !frames.empty() && frames.back().results < kMaxChecksPerMessage &&
                    frames.back().bytes.size() + result.size() <= kMaxFrameBytes;
  Frame& frame = fits ? frames.back() : frames.emplace_back();
  frame.bytes += result;
  ++frame.results;
  progress_.open_bytes += result.size();
}

void CheckStreamCall::Write() {
  progress_.writing = std::move(progress_.frames.front());
  progress_.frames.pop_front();
  const grpc::Slice slice(progress_.writing->bytes);
  stream_->Write(grpc::ByteBuffer(&slice, 1), written_.Arm());
}

}  // namespace sluice
