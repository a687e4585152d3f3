// What a service is written against: one handler serves one call after the other, bytes in, bytes
// or a status out. Handlers know nothing of HTTP/2; engines know nothing of what is served.
//
//   engine ──Serve(call, request)──▶ handler        unary: exactly one Finish follows
//   engine ◀─Finish(response)─────── handler
//
// Loop thread only: an engine makes a handler for a loop (see method.h), calls it on that loop's
// thread, and the handler answers there. What works on other threads posts its answer to the loop.
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

// What is known of a call besides its messages. Valid until the handler has called Finish, or until
// OnCancel returns.
class Call {
 public:
  virtual ~Call() = default;

  // When the caller gives up; SteadyTime::max() if never.
  virtual SteadyTime deadline() const = 0;

  // When the engine began with the request.
  virtual SteadyTime received() const = 0;

  // The value of a header that the caller sent, by its lower-case name; nothing if there is none,
  // or more than one.
  virtual std::optional<std::string_view> Metadata(std::string_view name) const = 0;

  virtual const net::Peer& peer() const = 0;
};

// The engine's side of a call, behind a handler's protected functions. Detached from its caller, it
// swallows what it is given.
class Responder {
 public:
  virtual ~Responder() = default;
  // Unary: the message, status OK. `on_lost`, if set, is called later, on the loop's thread, if the
  // caller is known not to have taken the response; perhaps after the handler is gone.
  virtual void Finish(std::string_view response, std::function<void()> on_lost) = 0;
  virtual void Finish(const Status& status) = 0;
  virtual void Send(std::string_view message) = 0;  // streams
  virtual std::size_t unsent_bytes() const = 0;     // streams
  virtual void SetReading(bool reading) = 0;        // streams
};

// Serves calls with one request and one response.
class UnaryHandler {
 public:
  virtual ~UnaryHandler() = default;

  // Answers by exactly one Finish, before Serve returns or later. `request` is valid until then.
  virtual void Serve(const Call& call, std::string_view request) = 0;

  // The caller is gone, or its deadline has passed: nobody will see the answer. Finish is still to
  // be called, and the handler serves nobody else before that.
  virtual void OnCancel() {}

  // For engines, before each Serve.
  void Attach(Responder& responder) { responder_ = &responder; }

 protected:
  // The engine copies what it is given. The handler may be serving its next call when Finish
  // returns.
  void Finish(std::string_view response, std::function<void()> on_lost = nullptr) {
    responder_->Finish(response, std::move(on_lost));
  }
  void Finish(const Status& error) { responder_->Finish(error); }

 private:
  Responder* responder_ = nullptr;
};

// Serves calls with any number of messages either way.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // A call has begun. From then on, in any order: OnMessage, once OnHalfClose, OnWritable, OnDrain;
  // until Finish, or until OnCancel, after which only Finish is to be called.
  virtual void OnStart(const Call& call) = 0;

  // The caller's next message; valid until OnMessage returns.
  virtual void OnMessage(std::string_view message) = 0;

  // The caller has sent all its messages.
  virtual void OnHalfClose() = 0;

  // unsent_bytes() has come down to 0.
  virtual void OnWritable() {}

  // The server is stopping: take in no more, answer what was taken in, then Finish with
  // UNAVAILABLE.
  virtual void OnDrain() = 0;

  // The caller is gone, or its deadline has passed. Nothing sent from now on reaches it; Finish
  // must be called all the same, now or when the handler can serve another call.
  virtual void OnCancel() = 0;

  // For engines, before each OnStart.
  void Attach(Responder& responder) { responder_ = &responder; }

 protected:
  // The engine copies what it is given.
  void Send(std::string_view message) { responder_->Send(message); }

  // Bytes given to Send that wait for the caller to read: its flow-control window is full.
  std::size_t unsent_bytes() const { return responder_->unsent_bytes(); }

  // Whether messages are wanted. While not, the caller is held back by flow control; at most one
  // message that has come already is still handed over.
  void SetReading(bool reading) { responder_->SetReading(reading); }

  // Ends the call once what was sent has left. The handler may be serving its next call when Finish
  // returns.
  void Finish(const Status& status) { responder_->Finish(status); }

 private:
  Responder* responder_ = nullptr;
};

}  // namespace sluice::rpc
