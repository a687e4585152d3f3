// One request and its response on an HTTP/2 connection: headers in, bytes of messages in and out,
// flow control, trailers. What the bytes mean is its ServerCall's matter.
//
// Loop thread only. A Shard makes streams and uses them again. A stream lives from its request's
// HEADERS until both sides have ended, or it is reset, or its connection ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "rpc/handler.h"
#include "rpc/http2/request_head.h"
#include "rpc/status.h"

namespace sluice::rpc::http2 {

class ServerCall;
class Session;

// A place in a circular list, or the list's head.
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

// The link is for one of the session's queues: its request is not complete, or its response is not
// taken.
class Stream final : public Call, public ListLink {
 public:
  // What a message may have to come without a share of the connection's memory: less than half of
  // the window of 65,535 bytes, which every caller has before the next WINDOW_UPDATE.
  static constexpr std::size_t kUnsharedBytes = 30 * 1024;

  // Begins a new life, and ends it.
  void Open(Session& session, std::int32_t id);
  void Close();

  // rpc::Call, for the handler.
  SteadyTime deadline() const override { return deadline_; }
  SteadyTime received() const override { return received_; }
  std::optional<std::string_view> Metadata(std::string_view name) const override {
    return head_.Metadata(name);
  }
  const net::Peer& peer() const override;

  // For the session: what the peer has sent.
  void OnHeader(std::string_view name, std::string_view value) { head_.Add(name, value); }
  void OnHeadersEnd();
  void OnData(std::string_view bytes, bool last_frame);
  void OnRequestEnd();
  void OnDrain();
  // The request was not complete in time.
  void OnIncomplete();

  // For the session: what the peer gets. Fills `buffer` and returns how much, or tells by kWait
  // that nothing is there yet. `last` is set with the response's last bytes, after which
  // the trailers are on their way.
  static constexpr std::size_t kWait = SIZE_MAX;
  std::size_t TakeOutput(std::uint8_t* buffer, std::size_t size, bool& last);

  // At the end of a turn: OnWritable, and messages that are wanted again.
  void RunCallbacks();

  // For the call. Answer: one message and status OK; `on_lost` as in Responder. Finish: after what
  // was sent. Fail: instead of what was sent and is not with the caller yet.
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

  // For the session's bookkeeping.
  SteadyTime queued_since{};
  std::size_t place = 0;  // in its list of streams
  bool waits_for_callbacks = false;
  std::size_t share = 0;         // bytes it may hold of large messages
  std::size_t wanted_share = 0;  // and would like to; it waits for them
  void OnShareGranted() { UpdateFlow(); }

 private:
  enum class Input : std::uint8_t { kHeaders, kBody, kEnded };
  enum class Output : std::uint8_t {
    kNone,     // no response yet
    kOpen,     // headers are submitted, messages may follow
    kWaiting,  // kOpen, and nghttp2 has taken all there is
    kLast,     // messages that are unsent, then trailers
    kEnded,    // all is submitted
  };

  void BeginCall();
  void DropUnsent();
  void SettleAnswer();
  void BeginLast();
  void RejectHttp(std::string_view http_status);
  void SetDeadline();
  void AppendMessage(std::string_view message);
  void UpdateFlow();
  void NoteUnfinished(std::size_t bytes);
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
  std::size_t unconsumed_ = 0;  // bytes received that the caller's window has not back
  std::size_t unfinished_ = 0;  // bytes that the session has counted as unfinished
  std::string output_;
  std::size_t taken_ = 0;  // of output_, by nghttp2
  Status status_;          // for the trailers, in kLast
  std::function<void()> on_lost_;
};

// Streams in the order of their times.
class StreamQueue {
 public:
  void Add(Stream& stream, SteadyTime now) {
    if (!stream.alone()) stream.Unlink();
    stream.queued_since = now;
    stream.LinkBefore(head_);
  }
  // SteadyTime::max() if there are none.
  SteadyTime oldest() const {
    return head_.alone() ? SteadyTime::max() : static_cast<const Stream&>(*head_.next).queued_since;
  }
  // REQUIRES: there is one.
  Stream& front() { return static_cast<Stream&>(*head_.next); }

 private:
  ListLink head_;
};

}  // namespace sluice::rpc::http2
