// A handler and the call that it serves: splits the request's bytes into messages and enforces the
// caller's deadline. UnaryCall and StreamCall derive from it.
//
//   free ──Begin──▶ active ──Release──▶ free
//                      └──Detach──▶ abandoned ──(the handler finishes)──▶ free
//
// Loop thread only. Owned and reused by a ReusePool. An abandoned call returns to the pool when its
// handler has finished.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "net/timer_queue.h"
#include "rpc/handler.h"
#include "rpc/http2/loop_state.h"
#include "rpc/http2/message_reader.h"
#include "rpc/http2/request_head.h"
#include "rpc/http2/reuse_pool.h"

namespace sluice::rpc::http2 {

// The functions of a stream that its call uses.
class CallStream : public Call {
 public:
  virtual const RequestHead& head() const = 0;
  // Whether the deadline has passed.
  virtual bool overdue() const = 0;

  // Sends one message with status OK; `on_lost` as in UnaryResponder.
  virtual void Answer(std::string_view message, std::function<void()> on_lost) = 0;
  virtual void Send(std::string_view message) = 0;
  // Ends the response after the sent messages.
  virtual void Finish(const Status& status) = 0;
  // Discards unsent output and ends the response.
  virtual void Fail(const Status& status) = 0;
  virtual std::size_t unsent_bytes() const = 0;

  // Calls the call's OnResumed at the end of the iteration.
  virtual void RequestResume() = 0;
  // The call is free or abandoned, so the stream must not use it anymore.
  virtual void ForgetCall() = 0;
};

class ServerCall : public Reusable {
 public:
  virtual ~ServerCall() = default;

  // The buffered part of the request.
  struct Backlog {
    std::size_t bytes = 0;
    std::size_t expected = 0;  // length of the incomplete message; 0: no message
    bool paused = false;       // the handler has paused reading, or messages wait for their turn
  };

  // The request's headers are complete.
  virtual void Begin(CallStream& stream) = 0;
  // The next bytes of the request have arrived.
  virtual void OnData(std::string_view bytes) = 0;
  // The request has ended.
  virtual void OnRequestEnd() = 0;
  // The stream is closed, so the caller is gone.
  virtual void Detach() = 0;
  virtual void OnDrain() {}
  // For streaming calls. OnWritable: all output was sent. OnResumed: the handler has resumed
  // reading, or deferred messages can be delivered.
  virtual void OnWritable() {}
  virtual void OnResumed() {}
  // Whether this is a streaming call, which has no time limit between messages.
  virtual bool is_stream() const = 0;

  Backlog backlog() const {
    return {.bytes = reader_.pending() + held_,
            .expected = reader_.expected(),
            .paused = paused_ || deferred_};
  }

  // Ends the call with an error from the server.
  virtual void Fail(const Status& status) = 0;

 protected:
  // Both must outlive the call.
  ServerCall(LoopState& loop, ReusePool<ServerCall>& pool);

  using Next = MessageReader::Next;

  // Binds the call to `stream`. If the call's deadline has passed, ends the call and returns false.
  bool Attach(CallStream& stream);

  // Takes the next message, decompressed. If the message is invalid, or too large before or after
  // decompression, fails the call.
  Next TakeMessage(std::string_view& message);

  // Frees the call and returns its stream, for the response.
  CallStream& Release();

  // The call has failed or was canceled, but the handler has not finished. The call still counts as
  // open.
  void BecomeAbandoned();
  void ReleaseAbandoned();

  LoopState& loop_;
  CallStream* stream_ = nullptr;  // null while free
  MessageReader reader_;
  std::size_t held_ = 0;  // bytes of a large message in use by the handler
  bool paused_ = false;
  bool deferred_ = false;  // messages are delivered in a later iteration

 private:
  bool Inflate(std::string_view& message);
  void Reset();

  ReusePool<ServerCall>& pool_;
  net::Timer deadline_timer_;
  std::string inflated_;
};

}  // namespace sluice::rpc::http2
