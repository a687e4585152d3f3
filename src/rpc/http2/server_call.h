// A handler and the call it serves at present: takes messages out of the request's bytes, and knows
// when the caller's time is up. UnaryCall and StreamCall derive from it.
//
//   free ──Begin──▶ at work ──Release──▶ free
//                      └──Detach──▶ abandoned ──(the handler finishes)──▶ free
//
// Loop thread only. Belongs to a CallPool, which uses it again; a call whose caller has left stays
// out of the pool until its handler has finished.
#pragma once

#include <string>
#include <string_view>

#include "net/timer_wheel.h"
#include "rpc/handler.h"
#include "rpc/http2/message_reader.h"

namespace sluice::rpc::http2 {

class CallPool;
class Shard;
class Stream;

inline Status DeadlineExceeded() {
  return {.code = StatusCode::kDeadlineExceeded, .message = "Deadline Exceeded"};
}

class ServerCall : public Responder {
 public:
  // Bytes of the request that are held here.
  struct Backlog {
    std::size_t bytes = 0;
    std::size_t expected = 0;  // length of the unfinished message; 0 if there is none
    bool paused = false;       // the handler wants no messages now
  };

  // The request's headers have come.
  virtual void Begin(Stream& stream) = 0;
  // Bytes of messages; and the end of the request.
  virtual void OnData(std::string_view bytes) = 0;
  virtual void OnRequestEnd() = 0;
  // The stream is gone, and the caller with it.
  virtual void Detach() = 0;
  virtual void OnDrain() {}
  // For streams: nothing is unsent; and messages held back are wanted again.
  virtual void OnWritable() {}
  virtual void OnResumed() {}
  // Whether the caller may take as long as it likes between messages.
  virtual bool is_stream() const = 0;

  Backlog backlog() const {
    return {.bytes = reader_.pending() + held_, .expected = reader_.expected(), .paused = paused_};
  }

  // Ends the call before, or without, its handler.
  virtual void Fail(const Status& status) = 0;

 protected:
  ServerCall(Shard& shard, CallPool& pool);

  enum class Taken : std::uint8_t { kMessage, kNothing, kPartial, kFailed };

  // Binds the call to `stream`. False: its deadline has passed, and it has been answered.
  bool Attach(Stream& stream);

  // The next message, inflated. A faulty one fails the call.
  Taken TakeMessage(std::string_view& message);

  // Unbinds the stream and gives it back, for the answer.
  Stream& Release();

  // The caller has left, the handler has not finished: the call counts as open all the same.
  void BecomeAbandoned();
  void ReleaseAbandoned();

  virtual void OnDeadline() = 0;

  Stream* stream_ = nullptr;  // null: free or abandoned
  MessageReader reader_;
  std::size_t held_ = 0;  // bytes of a large message that the handler works on
  bool paused_ = false;

 private:
  Taken Inflate(std::string_view& message);
  void Reset();

  Shard& shard_;
  CallPool& pool_;
  net::Timer deadline_timer_;
  std::string inflated_;
};

}  // namespace sluice::rpc::http2
