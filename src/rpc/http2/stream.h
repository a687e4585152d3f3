// A request and its response on an HTTP/2 connection: headers, message bytes, flow control and
// trailers. Its ServerCall interprets the bytes.
//
// Loop thread only. Owned and reused by a Shard. A stream opens with its request's HEADERS. It
// closes when both sides have ended, when it is reset, or when its connection ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "rpc/http2/call_pool.h"
#include "rpc/http2/request_head.h"
#include "rpc/http2/reuse_pool.h"
#include "rpc/http2/server_call.h"
#include "rpc/http2/stream_context.h"
#include "rpc/status.h"

namespace sluice::rpc::http2 {

class Stream final : public CallStream, public Reusable {
 public:
  // A message up to this size needs no reserved memory. This is less than half of 65,535 bytes,
  // the window that every caller has without a WINDOW_UPDATE.
  static constexpr std::size_t kUnreservedBytes = 30 * 1024;

  Stream();

  // A request uses this object from Open to Close.
  void Open(StreamContext& context, std::int32_t id);
  void Close();

  // rpc::Call, for the handler.
  SteadyTime deadline() const override { return deadline_; }
  SteadyTime received() const override { return received_; }
  std::optional<std::string_view> Metadata(std::string_view name) const override {
    return head_.Metadata(name);
  }
  const net::Peer& peer() const override { return context_->transport.peer(); }

  // Input, called by the session.
  void OnHeader(std::string_view name, std::string_view value);
  // `method`: null if the server has no method with this path.
  void OnHeadersEnd(CallPool* method);
  void OnData(std::string_view bytes, bool last_frame);
  void OnRequestEnd();
  void OnDrain();
  // The request was not complete in time.
  void OnIncomplete();

  // Output, called by the session. Copies output to `buffer` and returns the number of bytes, or
  // kWait if there is no output yet. With the last bytes of the response, submits the trailers and
  // sets `last`.
  static constexpr std::size_t kWait = SIZE_MAX;
  std::size_t TakeOutput(std::uint8_t* buffer, std::size_t size, bool& last);

  // Called at the end of an iteration. Calls OnWritable and OnResumed of the call if they are due.
  void RunCallbacks();

  // CallStream, for the call.
  const RequestHead& head() const override { return head_; }
  bool overdue() const override;
  void Answer(std::string_view message, std::function<void()> on_lost) override;
  void Send(std::string_view message) override;
  void Finish(const Status& status) override;
  void Fail(const Status& status) override;
  std::size_t unsent_bytes() const override { return output_.size() - taken_; }
  void RequestResume() override;
  void ForgetCall() override;

  std::int32_t id() const { return id_; }
  bool in_headers() const { return input_ == Input::kHeaders; }
  bool request_ended() const { return input_ == Input::kEnded; }

  // State owned by the session.
  std::size_t place = 0;  // index in its list of streams
  enum class Counted : std::uint8_t { kNot, kAsCall, kAsProbe } counted = Counted::kNot;

 private:
  enum class Input : std::uint8_t { kHeaders, kBody, kEnded };
  enum class Output : std::uint8_t {
    kNone,     // no response yet
    kOpen,     // headers are submitted, messages may follow
    kWaiting,  // like kOpen, and nghttp2 has taken all output
    kLast,     // no message follows; the trailers are not submitted yet
    kEnded,    // the whole response is submitted
  };

  void BeginCall(CallPool* method);
  void DropUnsent();
  void CompleteResponse();
  void BeginLast();
  void EndOutput();
  void RejectHttp(std::string_view http_status);
  void SetDeadline();
  void AppendMessage(std::string_view message);
  void NoteTaken(std::size_t count);
  void UpdateFlow();
  void NoteUnfinished(std::size_t bytes);
  bool CountRequest(std::size_t bytes);
  bool HasMemoryFor(std::size_t expected);
  void RequestCallbacks();

  StreamContext* context_ = nullptr;
  ServerCall* call_ = nullptr;
  std::int32_t id_ = 0;
  Input input_ = Input::kHeaders;
  Output output_state_ = Output::kNone;
  bool resumed_ = false;
  bool writable_ = false;
  bool waits_for_callbacks_ = false;
  Waiting incomplete_{*this};      // linked while a request, or a stream's message, is incomplete
  Waiting unsent_{*this};          // linked while output waits for the caller's window
  MemoryReservation reservation_;  // for a large message
  SteadyTime received_{};
  SteadyTime deadline_{};
  RequestHead head_;
  std::size_t unconsumed_ = 0;  // received bytes not yet returned to the caller's window
  std::size_t unfinished_ = 0;  // the request's bytes that MessageMemory counts
  std::string output_;
  std::size_t taken_ = 0;  // bytes of output_ that nghttp2 has taken
  std::size_t due_ = 0;    // unsent bytes that have waited since unsent_.since
  Status status_;          // for the trailers, valid in kLast
  std::function<void()> on_lost_;
};

}  // namespace sluice::rpc::http2
