// One CheckLimitStream RPC after the other: frames of checks come, frames of results leave, in
// whichever order checks are answered.
//
//   ──read──▶ checks under way ──▶ results waiting ──write──▶       at most one read and one write
//
// What is read, but not written, is bounded: past that the stream is not read on, so that a caller
// that does not read its results is held back by HTTP/2's flow control and costs no more memory.
//
// The stream ends when the caller has said all and all is answered, at the first frame that is
// invalid as a whole, or when the server drains. In any case all that was taken in is answered
// first: what a caller has no result for has not been decided.
//
// Read, written and finished on the queue's threads, answered on any.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "service/check_item_pool.h"
#include "service/queued_call.h"
#include "service/rate_limiter_service.h"

namespace sluice {

class CheckStreamCall final : public QueuedCall, private CheckItem::Owner {
 public:
  // Past these, no frame is read: checks under way and results not written yet, and their bytes.
  static constexpr std::size_t kMaxOpenChecks = 4096;
  static constexpr std::size_t kMaxOpenBytes = 4 * 1024 * 1024;

  // `pool`, `service` and `items` must outlive the call.
  CheckStreamCall(CallPool& pool, RateLimiterService& service, CheckItemPool& items)
      : QueuedCall(pool, Kind::kStream), service_(service), item_pool_(items) {}

 private:
  using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Serialized CheckLimitsResponses, one after the other.
  struct Frame {
    std::string bytes;
    std::size_t results = 0;
  };

  // Of one stream.
  struct Progress {
    bool open = false;      // there is a stream
    bool reading = false;   // until the frame has been taken in
    bool starting = false;  // checks of a frame that was read
    bool finishing = false;
    bool finished = false;
    bool left = false;
    bool ended = false;   // nothing is read any more
    bool broken = false;  // nobody is there to hear results
    grpc::Status status;  // once `ended`
    std::size_t open_checks = 0;
    std::size_t open_bytes = 0;
    std::size_t under_way = 0;  // of open_checks, those without result
    std::deque<Frame> frames;   // to be written
    std::optional<Frame> writing;
  };

  void RequestNext(void* tag) override;
  void LetGo() override;
  void Serve() override;
  void Drain() override;
  void OnAnswered(CheckItem& item) override;

  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);

  // Takes in the frame that was read, of which `piece` is what checks_ view. False if it is none.
  bool Accept(grpc::Slice& piece) SLUICE_EXCLUDES(mutex_);
  void StartChecks() SLUICE_EXCLUDES(mutex_);
  void LeaveIfOver() SLUICE_EXCLUDES(mutex_);

  // Does all that can be done next.
  void Advance() SLUICE_REQUIRES(mutex_);
  void End(grpc::Status status) SLUICE_REQUIRES(mutex_);
  void AddResult(const std::string& result) SLUICE_REQUIRES(mutex_);
  void Write() SLUICE_REQUIRES(mutex_);

  RateLimiterService& service_;
  CheckItemPool& item_pool_;
  EventOf<CheckStreamCall, &CheckStreamCall::OnRead> read_{*this};
  EventOf<CheckStreamCall, &CheckStreamCall::OnWritten> written_{*this};
  EventOf<CheckStreamCall, &CheckStreamCall::OnFinished> finished_{*this};

  // Whose turn it is: RequestNext, then Serve, then OnRead.
  std::optional<grpc::ServerContext> context_;
  std::vector<std::string_view> checks_;  // of the frame being taken in

  // Touched with mutex_ held, once the stream serves.
  std::optional<Stream> stream_;
  grpc::ByteBuffer frame_;

  Mutex mutex_;
  Progress progress_ SLUICE_GUARDED_BY(mutex_);
  CheckItemPool::Items answered_ SLUICE_GUARDED_BY(mutex_);  // to be used again
};

}  // namespace sluice
