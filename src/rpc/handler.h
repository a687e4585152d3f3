// The interface between services and servers. A handler serves one call at a time: it receives
// bytes and returns bytes or a status. Handlers do not depend on HTTP, and servers do not depend on
// services.
//
//   server ──Serve(call, request)──▶ handler        unary: exactly one Finish follows
//   server ◀─Finish(response)─────── handler
//
// Loop thread only: a server creates a handler for a loop (see method.h) and calls it on the
// loop's thread. The handler must respond on that thread; other threads post to the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "net/peer.h"
#include "rpc/status.h"

namespace sluice::rpc {

// The properties of a call. Valid until the handler calls Finish, or until OnCancel returns.
class Call {
 public:
  virtual ~Call() = default;

  // The caller's deadline; SteadyTime::max() if the caller has set no deadline.
  virtual SteadyTime deadline() const = 0;

  // The time at which the server began to receive the request.
  virtual SteadyTime received() const = 0;

  // The value of the caller's header `name`, which must be in ServerOptions::metadata. nullopt if
  // the header is absent or occurs more than once.
  virtual std::optional<std::string_view> Metadata(std::string_view name) const = 0;

  virtual const net::Peer& peer() const = 0;
};

// The server's side of a call, used by the handlers' protected functions. After the caller is gone,
// responses are discarded.
class UnaryResponder {
 public:
  virtual ~UnaryResponder() = default;
  // Sends the message with status OK. If the server learns that the caller did not receive the
  // message, the server calls `on_lost` (unless null) on the loop's thread, possibly after the
  // handler is destroyed. The server learns this if the call has already ended, if the connection
  // ends before the message is sent, or if the caller resets the call shortly after the message is
  // sent.
  virtual void Finish(std::string_view response, std::function<void()> on_lost) = 0;
  virtual void Finish(const Status& status) = 0;
};

class StreamResponder {
 public:
  virtual ~StreamResponder() = default;
  virtual void Send(std::string_view message) = 0;
  virtual std::size_t unsent_bytes() const = 0;
  virtual void SetReading(bool reading) = 0;
  virtual void Finish(const Status& status) = 0;
};

// Serves calls with one request and one response.
class UnaryHandler {
 public:
  virtual ~UnaryHandler() = default;

  // Must call Finish exactly once, before Serve returns or later. `request` is valid until the call
  // of Finish.
  virtual void Serve(const Call& call, std::string_view request) = 0;

  // The caller has canceled the call, or the call's deadline has passed, so the response is
  // discarded. The handler must still call Finish, and serves no other call before that.
  virtual void OnCancel() {}

  // Servers call this before each Serve.
  void Attach(UnaryResponder& responder) { responder_ = &responder; }

 protected:
  // Copies `response`. The handler may already serve its next call when Finish returns.
  void Finish(std::string_view response, std::function<void()> on_lost = nullptr) {
    responder_->Finish(response, std::move(on_lost));
  }
  void Finish(const Status& error) { responder_->Finish(error); }

 private:
  UnaryResponder* responder_ = nullptr;
};

// Serves calls with any number of messages in both directions.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // A call has begun. The server then calls OnMessage, OnHalfClose (at most once, after the last
  // OnMessage), OnWritable and OnDrain, until the handler calls Finish or the server has called
  // OnCancel.
  virtual void OnStart(const Call& call) = 0;

  // `message`: the caller's next message, valid until OnMessage returns.
  virtual void OnMessage(std::string_view message) = 0;

  // The caller has sent all its messages.
  virtual void OnHalfClose() = 0;

  // unsent_bytes() has dropped to 0.
  virtual void OnWritable() {}

  // The server is stopping. The handler should accept no new messages, respond to those received,
  // then call Finish with UNAVAILABLE.
  virtual void OnDrain() = 0;

  // The caller has canceled the call, or the call's deadline has passed. Messages sent from now on
  // are discarded. The handler must still call Finish, now or when it can serve another call.
  virtual void OnCancel() = 0;

  // Servers call this before each OnStart.
  void Attach(StreamResponder& responder) { responder_ = &responder; }

 protected:
  // Copies `message`.
  void Send(std::string_view message) { responder_->Send(message); }

  // The number of bytes passed to Send that still wait for the end of the iteration or for the
  // caller's flow-control window.
  std::size_t unsent_bytes() const { return responder_->unsent_bytes(); }

  // Pauses or resumes OnMessage. While OnMessage is paused, flow control stops the caller. At most
  // one message that was already received may still be delivered.
  void SetReading(bool reading) { responder_->SetReading(reading); }

  // Ends the call after the sent messages. The handler may already serve its next call when Finish
  // returns.
  void Finish(const Status& status) { responder_->Finish(status); }

 private:
  StreamResponder* responder_ = nullptr;
};

}  // namespace sluice::rpc
