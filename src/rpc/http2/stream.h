// A request and its response on an HTTP/2 connection: headers, message bytes, flow control and
// trailers. Its ServerCall interprets the bytes.
//
// Loop thread only. Owned and reused by a Shard. A stream is open from its request's HEADERS until
// both sides have ended, it is reset, or its connection ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "rpc/handler.h"
#include "rpc/http2/request_head.h"
#include "rpc/http2/reuse_pool.h"
#include "rpc/status.h"

namespace sluice::rpc::http2 {

class CallPool;
class ServerCall;
class Session;
class Stream;

// A link of a circular list, or the list's head.
struct ListLink {
  ListLink* previous = this;
  ListLink* next = this;

  bool alone() const { return next == this; }
  void Unlink() {
    previous->next = next;
    next->previous = previous;
    previous = next = this;
  }
  void LinkBefore(ListLink& other) {
    previous = other.previous;
    next = &other;
    previous->next = this;
    other.previous = this;
  }
};

// A stream's place in a StreamQueue.
struct QueuePlace : ListLink {
  explicit QueuePlace(Stream& owner) : stream(owner) {}

  Stream& stream;
  SteadyTime since{};
};

class Stream final : public Call, public Reusable {
 public:
  // The maximum size of a message that needs no share of the connection's memory: less than half of
  // the window of 65,535 bytes, which every caller has without a WINDOW_UPDATE.
  static constexpr std::size_t kUnsharedBytes = 30 * 1024;

  // Start and end the use for one request.
  void Open(Session& session, std::int32_t id);
  void Close();

  // rpc::Call, for the handler.
  SteadyTime deadline() const override { return deadline_; }
  SteadyTime received() const override { return received_; }
  std::optional<std::string_view> Metadata(std::string_view name) const override {
    return head_.Metadata(name);
  }
  const net::Peer& peer() const override;

  // Input, called by the session.
  void OnHeader(std::string_view name, std::string_view value);
  // `method`: null if the server has none of this path.
  void OnHeadersEnd(CallPool* method);
  void OnData(std::string_view bytes, bool last_frame);
  void OnRequestEnd();
  void OnDrain();
  // The request was not complete in time.
  void OnIncomplete();

  // Output, called by the session. Copies output to `buffer` and returns the number of bytes, or
  // kWait if there is no output yet. Sets `last` with the response's last bytes, once the trailers
  // are submitted.
  static constexpr std::size_t kWait = SIZE_MAX;
  std::size_t TakeOutput(std::uint8_t* buffer, std::size_t size, bool& last);

  // Called at the end of an iteration: OnWritable, and delivery of messages after a pause.
  void RunCallbacks();

  // Called by the call. Answer sends one message with status OK; `on_lost` as in Responder. Finish
  // ends the response after the sent messages. Fail discards unsent output and ends the response.
  const RequestHead& head() const { return head_; }
  bool overdue() const;
  void Answer(std::string_view message, std::function<void()> on_lost);
  void Send(std::string_view message);
  void Finish(const Status& status);
  void Fail(const Status& status);
  std::size_t unsent_bytes() const { return output_.size() - taken_; }
  void RequestResume();
  void ForgetCall();

  std::int32_t id() const { return id_; }
  bool in_headers() const { return input_ == Input::kHeaders; }
  bool request_ended() const { return input_ == Input::kEnded; }

  // State owned by the session.
  QueuePlace incomplete{*this};  // while the request is incomplete
  QueuePlace untaken{*this};     // while output waits for the caller's window
  std::size_t place = 0;         // index in its list of streams
  enum class Counted : std::uint8_t { kNot, kAsCall, kAsProbe } counted = Counted::kNot;
  bool waits_for_callbacks = false;
  std::size_t share = 0;         // bytes granted for a large message
  std::size_t wanted_share = 0;  // bytes requested and not granted yet
  void OnShareGranted() { UpdateFlow(); }

 private:
  enum class Input : std::uint8_t { kHeaders, kBody, kEnded };
  enum class Output : std::uint8_t {
    kNone,     // no response yet
    kOpen,     // headers are submitted, messages may follow
    kWaiting,  // like kOpen, and nghttp2 has taken all output
    kLast,     // the last messages are unsent; trailers follow
    kEnded,    // the whole response is submitted
  };

  void BeginCall(CallPool* method);
  void DropUnsent();
  void CompleteResponse();
  void BeginLast();
  void RejectHttp(std::string_view http_status);
  void SetDeadline();
  void AppendMessage(std::string_view message);
  void NoteTaken(std::size_t count);
  void UpdateFlow();
  void NoteUnfinished(std::size_t bytes);
  bool CountRequest(std::size_t bytes);
  bool HasShare(std::size_t expected);

  Session* session_ = nullptr;
  ServerCall* call_ = nullptr;
  std::int32_t id_ = 0;
  Input input_ = Input::kHeaders;
  Output output_state_ = Output::kNone;
  bool resumed_ = false;
  bool writable_ = false;
  SteadyTime received_{};
  SteadyTime deadline_{};
  RequestHead head_;
  std::size_t unconsumed_ = 0;  // received bytes not yet returned to the caller's window
  std::size_t unfinished_ = 0;  // bytes of the request that MessageMemory counts
  std::string output_;
  std::size_t taken_ = 0;  // bytes of output_ that nghttp2 has taken
  std::size_t due_ = 0;    // unsent bytes that date from untaken.since
  Status status_;          // for the trailers, valid in kLast
  std::function<void()> on_lost_;
};

// Streams in the order in which they were added.
class StreamQueue {
 public:
  // Moves a stream that is in the queue to its end.
  void Add(QueuePlace& place, SteadyTime now) {
    place.Unlink();
    place.since = now;
    place.LinkBefore(head_);
  }
  bool empty() const { return head_.alone(); }
  // When the first stream was added, or SteadyTime::max() if the queue is empty.
  SteadyTime oldest() const {
    return empty() ? SteadyTime::max() : static_cast<const QueuePlace&>(*head_.next).since;
  }
  // REQUIRES: the queue is not empty.
  Stream& front() { return static_cast<QueuePlace&>(*head_.next).stream; }

 private:
  ListLink head_;
};

}  // namespace sluice::rpc::http2
