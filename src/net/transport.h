// A connection as a protocol sees it: bytes in, bytes out, whatever carries them (TCP, a unix
// socket, TLS, or a test's simulation).
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

// May be handed to Loop::DisposeLater.
class Disposable {
 public:
  virtual ~Disposable() = default;
};

// Stores are flushed before callers: while their answer is on its way to Redis, nobody waits.
enum class FlushStage : std::uint8_t { kStore, kCallers };

// Has work for the end of a turn. Must not be destroyed while a flush is requested and the turn
// lasts; Transports see to that by being disposed of later.
class Flushable : public Disposable {
 public:
  explicit Flushable(FlushStage stage) : stage_(stage) {}

 private:
  friend class Loop;
  virtual void Flush() = 0;

  const FlushStage stage_;
  bool requested_ = false;
};

// What speaks over a transport. It does no I/O, so a test can drive it by hand.
class Protocol {
 public:
  virtual ~Protocol() = default;

  // Bytes from the peer, at most kReadBytes of them. Valid until Receive returns.
  virtual void Receive(std::string_view bytes) = 0;

  // Appends what is to be sent to `out`, which may hold bytes already: about kFlushBytes at most.
  // Called at the end of a turn after Transport::RequestFlush, again as long as it appends
  // anything, and when the kernel has room again.
  virtual void TakeOutput(std::string& out) = 0;

  enum class Closure : std::uint8_t {
    kEndOfInput,  // the peer sends no more; what is sent to it may still arrive
    kLost,        // the connection is gone; the transport says nothing more
  };
  // `cause` is for a log line: "connection reset by peer".
  virtual void OnClosed(Closure closure, std::string_view cause) = 0;

  // All that TakeOutput has returned so far is with the kernel, after a time when it was not.
  virtual void OnDrained() {}
};

class Transport : public Flushable {
 public:
  static constexpr std::size_t kReadBytes = 16 * 1024;
  static constexpr std::size_t kFlushBytes = 64 * 1024;

  using Flushable::Flushable;

  // Begins to read. `protocol` must outlive the transport's Close.
  virtual void Start(Protocol& protocol) = 0;

  // The protocol has something to send: TakeOutput is called at the end of this turn.
  virtual void RequestFlush() = 0;

  // Whether bytes are read. While not, the peer is held back by TCP.
  virtual void SetReading(bool reading) = 0;

  // Sends what the protocol has, then ends our side (FIN).
  virtual void FinishSending() = 0;

  // Ends both sides at once. No callback follows.
  virtual void Close() = 0;

  // Bytes taken from the protocol that the kernel has not taken yet.
  virtual std::size_t unsent() const = 0;

  // Over TLS the identities are known from the first Receive or TakeOutput on.
  virtual const Peer& peer() const = 0;
};

// Closes a transport and destroys it at the end of the turn, so that an owner may let it go within
// its callbacks.
struct TransportDeleter {
  Loop* loop = nullptr;
  void operator()(Transport* transport) const;
};
using TransportPtr = std::unique_ptr<Transport, TransportDeleter>;

// A connection being made. Destroying it gives up.
class ConnectAttempt {
 public:
  virtual ~ConnectAttempt() = default;
};
using ConnectDone = std::function<void(Result<TransportPtr>)>;

}  // namespace sluice::net
