// One connection to a peer, which is a Redis node or a sentinel: connects, logs in and, for checks,
// loads the check script. A lost connection is reopened after a pause that grows. Replies arrive in
// the order of commands. Bytes pass through a net::Transport; this class does no I/O.
//
//   kWaiting ──pause──▶ kConnecting ──▶ kLoggingIn ──▶ kReady
//      ▲────────── failure ──┴────────────────┴───────────┘
//
// Loop thread only. Start, Restart and ReconnectElsewhere may call the owner before they return.
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

#include "base/secret.h"
#include "net/loop.h"
#include "net/timer_queue.h"
#include "net/tls_context.h"
#include "net/transport.h"
#include "store/redis/redis_url.h"
#include "store/redis/reply_reader.h"
#include "store/redis/server_status.h"

namespace sluice::redis {

// Appends a command in the Redis protocol.
void AppendCommand(std::span<const std::string_view> command, std::string& out);

// The text of a string, a status or an error; empty for other replies.
std::string_view TextOf(const redisReply& reply);

// How the connections of a store reach its nodes or sentinels, and log in.
struct ServerAccess {
  RedisLogin login;
  const Secret* password =
      nullptr;  // replaces the password of `login`; if set, must outlive the connections
  const net::TlsClientContext* tls = nullptr;  // null: no TLS; must outlive the connections
  std::string server_name;      // the name in certificates; empty: the host of the connection
  bool loads_script = true;     // false: no checks will be sent
  bool must_be_master = false;  // a replica is refused
};

class Connection final : private net::Protocol {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The address to connect to, requested before every attempt. Empty: none is known.
    virtual std::optional<Address> AddressToTry() = 0;
    // Commands may be sent from now on.
    virtual void OnReady() = 0;
    // The maximum size of the reply to the oldest outstanding command.
    virtual ReplySize LargestReply() const = 0;
    // The reply to the oldest outstanding command. If no command is outstanding, an unsolicited
    // reply.
    virtual void OnReply(const redisReply& reply) = 0;
    // Bytes have arrived, and all complete replies have been passed to OnReply. A part of the next
    // reply may remain.
    virtual void OnPartOfReply() {}
    // The connection is lost, so no outstanding command will get a reply. If the reason is an error
    // of Redis, `cause` begins with the word of this error: see KindOf.
    virtual void OnDown(std::string_view cause) = 0;
    // Connecting or logging in failed. Another attempt follows. `cause`: see OnDown; empty if no
    // address is known.
    virtual void OnFailedAttempt(std::string_view cause) = 0;
  };

  // All references must outlive the connection.
  Connection(net::Loop& loop, ServerAccess access, ServerStatus& status, Owner& owner);
  ~Connection() override;

  void Start();
  // Closes permanently. The owner is not called anymore.
  void Stop();

  bool ready() const { return state_ == State::kReady; }

  // Queues a command for the end of this loop iteration. REQUIRES: ready().
  void Send(std::initializer_list<std::string_view> command);
  // The same for commands that AppendCommand has formatted.
  void SendFormatted(std::string_view commands);

  // Closes the connection because of an error of the peer, and reconnects. The peer counts as
  // failing until MarkHealthy.
  void Restart(std::string_view cause);

  // For cases in which the peer is not at fault. Closes the connection, then requests an address
  // and connects, without a pause.
  void ReconnectElsewhere();

  // Called when the peer has done its work, such as charging a check. The pause after the next
  // loss is then short again. A login or an answer to a peek is not enough: a replica also
  // accepts logins and answers peeks, but refuses writes.
  void MarkHealthy();

 private:
  enum class State : std::uint8_t { kStopped, kWaiting, kConnecting, kLoggingIn, kReady };
  static constexpr std::chrono::milliseconds kFirstPause{10};
  static constexpr std::chrono::milliseconds kLastPause{400};
  static constexpr std::chrono::milliseconds kConnectTimeout{500};
  static constexpr std::chrono::milliseconds kLoginTimeout{500};
  // ROLE lists the replicas of a master.
  static constexpr ReplySize kLoginReply{.elements = 1000};

  void Connect();
  void LogIn(net::TransportPtr transport, const Address& address);
  void QueueLogin(std::initializer_list<std::string_view> command);
  void OnLoginReply(const redisReply& reply);
  void OnTime();
  void Fail(std::string_view cause, std::string_view refused_step = {});
  void WaitToRetry();
  void Disconnect();

  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;

  net::Loop& loop_;
  const ServerAccess access_;
  ServerStatus& status_;
  Owner& owner_;
  State state_ = State::kStopped;
  bool counts_as_failing_ = false;  // since Restart, until MarkHealthy
  std::uint64_t attempt_ = 0;       // changes when the connection is closed
  std::unique_ptr<net::ConnectAttempt> connecting_;
  net::TransportPtr transport_;
  net::Timer timer_;  // kWaiting: end of the pause; kLoggingIn: login timeout
  std::chrono::milliseconds pause_ = kFirstPause;
  std::optional<ReplyReader> reader_;  // reads replies from the bytes of transport_
  std::string output_;
  std::deque<std::string> login_steps_;  // names of the commands that await a reply
};

}  // namespace sluice::redis
