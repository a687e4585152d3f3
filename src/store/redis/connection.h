// One connection to a Redis server: connects, logs in and loads the check script. If the connection
// is lost, it begins anew after a pause; pauses grow. Commands are answered in order.
// Bytes go in and out through a net::Transport; nothing here does I/O.
//
//   kWaiting ──pause──▶ kConnecting ──▶ kLoggingIn ──▶ kReady
//      ▲────────── failure ──┴────────────────┴───────────┘
//
// Loop thread only. Only Restart calls the owner before it returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/loop.h"
#include "net/timer_wheel.h"
#include "net/transport.h"
#include "store/redis/access.h"
#include "store/redis/server_status.h"

struct redisReader;
struct redisReply;

namespace sluice::redis {

// Appends a command as Redis reads it.
void AppendCommand(std::span<const std::string_view> command, std::string& out);

class Connection final : private net::Protocol {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Where to connect to; asked before every attempt. Nothing: no server is known.
    virtual std::optional<Address> AddressToTry() = 0;
    // Commands may be sent from now on.
    virtual void OnReady() = 0;
    // The reply to the oldest outstanding command; without one, a reply that was not asked for.
    virtual void OnReply(const redisReply& reply) = 0;
    // The connection is gone; no command sent before will get a reply.
    virtual void OnDown() = 0;
    // Connecting or logging in failed; another attempt follows.
    virtual void OnFailedAttempt() = 0;
  };

  // All references must outlive the connection.
  Connection(net::Loop& loop, Access access, ServerStatus& status, Owner& owner);
  ~Connection() override;

  void Start();
  // For good. Calls the owner no more.
  void Stop();

  bool ready() const { return state_ == State::kReady; }

  // Queues a command, as AppendCommand writes it, for the end of this turn. REQUIRES: ready().
  void Send(std::string_view command);

  // Gives the connection up because of what the server said, and begins anew. The server counts as
  // failing until NoteUse.
  void Restart(std::string_view cause);

  // Gives the connection up and asks for an address to try at once: this server is not at fault.
  void MoveOn();

  // To be called when the server has done what the connection is for, such as charging a check:
  // only then the next loss is answered without a long pause. A server that lets us log in, and a
  // replica that answers peeks, may refuse to write.
  void NoteUse();

 private:
  enum class State : std::uint8_t { kStopped, kWaiting, kConnecting, kLoggingIn, kReady };
  // What is wrong, for the log.
  enum class Trouble : std::uint8_t {
    kNone,
    kConnection,  // over when the login has succeeded
    kRefusal,     // over when a check has been charged
  };
  static constexpr std::chrono::milliseconds kFirstPause{10};
  static constexpr std::chrono::milliseconds kLastPause{400};
  static constexpr std::chrono::milliseconds kConnectTimeout{500};
  static constexpr std::chrono::milliseconds kLoginTimeout{500};

  void Connect();
  void LogIn(net::TransportPtr transport, const Address& address);
  void QueueLogin(std::initializer_list<std::string_view> command);
  void OnLoginReply(const redisReply& reply);
  void OnTime();
  void Fail(std::string_view cause);
  void WaitToRetry();
  void Disconnect();

  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;

  net::Loop& loop_;
  const Access access_;
  ServerStatus& status_;
  Owner& owner_;
  State state_ = State::kStopped;
  Trouble trouble_ = Trouble::kNone;
  std::uint64_t attempt_ = 0;  // changes whenever the connection begins anew
  std::unique_ptr<net::ConnectAttempt> connecting_;
  net::TransportPtr transport_;
  net::Timer timer_;  // kWaiting: the pause is over; kLoggingIn: the login takes too long
  std::chrono::milliseconds pause_ = kFirstPause;
  struct ReaderDeleter {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, ReaderDeleter> reader_;
  std::string output_;
  std::deque<std::string> login_steps_;  // names of the commands not yet replied to
};

}  // namespace sluice::redis
