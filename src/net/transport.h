// A byte stream between a protocol and its peer, over TCP, a unix socket, TLS or a simulation.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/peer.h"

namespace sluice::net {

class Loop;

// An object that Loop::DisposeLater can destroy.
class Disposable {
 public:
  virtual ~Disposable() = default;
};

// Stores are flushed before callers, so that Redis works while replies to callers are sent.
enum class FlushStage : std::uint8_t { kStore, kCallers };

// An object with work for the end of an iteration. Must not be destroyed while a flush is
// requested. Transports ensure this: DisposeLater destroys them after all flushes.
class Flushable : public Disposable {
 public:
  explicit Flushable(FlushStage stage) : stage_(stage) {}

 private:
  friend class Loop;
  virtual void Flush() = 0;

  const FlushStage stage_;
  bool requested_ = false;
};

// The user of a transport. Does no I/O, so that tests can call it directly.
class Protocol {
 public:
  virtual ~Protocol() = default;

  // `bytes`: at most kReadBytes from the peer, valid until Receive returns.
  virtual void Receive(std::string_view bytes) = 0;

  // Appends at most about kFlushBytes to `out`, which may already have bytes.
  // Called at the end of an iteration after Transport::RequestFlush, repeatedly until it appends
  // nothing or the kernel accepts no more. Called again when the socket becomes writable. A call
  // means that the kernel has accepted all bytes of earlier calls.
  virtual void TakeOutput(std::string& out) = 0;

  enum class Closure : std::uint8_t {
    kEndOfInput,  // the peer has closed its side; sending is still possible
    kLost,        // the connection is lost; no callback follows
  };
  // `cause` is a text for a log line, such as "connection reset by peer".
  virtual void OnClosed(Closure closure, std::string_view cause) = 0;

  // The kernel has accepted all output so far, after a time when its buffer was full.
  virtual void OnDrained() {}
};

class Transport : public Flushable {
 public:
  static constexpr std::size_t kReadBytes = 16 * 1024;
  static constexpr std::size_t kFlushBytes = 64 * 1024;
  // While a protocol is ending, it reads and discards at most about this many bytes, so that the
  // peer can still receive the rest of the output. If the peer sends more, flow control stops the
  // peer.
  static constexpr std::size_t kMaxDiscarded = 1024 * 1024;

  using Flushable::Flushable;

  // Begins to read. `protocol` must outlive the transport's Close.
  virtual void Start(Protocol& protocol) = 0;

  // Makes the loop call the protocol's TakeOutput at the end of this iteration.
  virtual void RequestFlush() = 0;

  // Pauses or resumes reading. While reading is paused, flow control stops the peer.
  virtual void SetReading(bool reading) = 0;

  // Sends the protocol's pending output, then closes this side (FIN).
  virtual void FinishSending() = 0;

  // Closes both sides at once. No callback follows.
  virtual void Close() = 0;

  // The number of bytes that were taken from the protocol and not yet accepted by the kernel.
  virtual std::size_t unsent() const = 0;

  // Whether bytes of the peer have arrived that the protocol has not received. Takes a system call.
  virtual bool HasUnreadInput() const = 0;

  // Over TLS, the peer is incomplete until the first call of Receive or TakeOutput.
  virtual const Peer& peer() const = 0;
};

// Closes a transport and destroys it at the end of the iteration, so that its owner may release it
// within the transport's callbacks.
struct TransportDeleter {
  Loop* loop = nullptr;
  void operator()(Transport* transport) const;
};
using TransportPtr = std::unique_ptr<Transport, TransportDeleter>;

// A pending connection attempt. Destroying it cancels the attempt.
class ConnectAttempt {
 public:
  virtual ~ConnectAttempt() = default;
};
using ConnectDone = std::function<void(Result<TransportPtr>)>;

}  // namespace sluice::net
