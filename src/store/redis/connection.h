// One connection to one Redis server: connects, logs in, loads the check script, and does so again,
// with growing pauses, whenever the connection is lost. Commands are answered in order.
//
// One thread at a time: every method is called, and every listener method is heard, in a turn of
// the listener. Turns that what comes from the network needs are taken on the thread that runs the
// io_context. Only Restart calls the listener before it returns.
#pragma once

#include <utility>  // Boost 1.74 needs it before Asio

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/redis_url.h"

struct redisReader;
struct redisReply;

namespace sluice::redis {

class Connection {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Around all that follows, see Turn: between the two, no other thread does anything with the
    // connection.
    virtual void BeginTurn() = 0;
    virtual void EndTurn() = 0;
    // Commands may be sent from now on.
    virtual void OnReady() = 0;
    // The reply to the oldest command not replied to yet.
    virtual void OnReply(const redisReply& reply) = 0;
    // Everything read so far has been handed out.
    virtual void OnIdle() = 0;
    // The connection is gone; no command sent before will get a reply.
    virtual void OnDown() = 0;
    // Connecting or logging in failed; another attempt follows.
    virtual void OnFailedAttempt() = 0;
  };

  // A turn of the listener, as long as this lives. Its end may also do what others have left to do.
  class Turn {
   public:
    explicit Turn(Listener& listener) : listener_(listener) { listener_.BeginTurn(); }
    ~Turn() { listener_.EndTurn(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Listener& listener_;
  };

  // `io` and `listener` must outlive the connection.
  Connection(boost::asio::io_context& io, RedisUrl url, Listener& listener);
  ~Connection();

  void Start();
  // For good. The listener hears nothing more.
  void Stop();

  bool ready() const { return state_ == State::kReady; }

  // Queues a command; Flush hands what is queued to the kernel. REQUIRES: ready().
  void Send(std::span<const std::string_view> command);
  void Flush();

  // Gives the connection up, says why in the log, and begins anew.
  void Restart(std::string_view cause);

  // To be called when a command has succeeded: the next loss is answered without a pause.
  void ResetBackoff() { backoff_ = kFirstBackoff; }

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Error = boost::system::error_code;
  using Endpoints = std::vector<boost::asio::generic::stream_protocol::endpoint>;
  enum class State { kStopped, kWaiting, kConnecting, kLoggingIn, kReady };
  static constexpr std::chrono::milliseconds kFirstBackoff{10};
  static constexpr std::chrono::milliseconds kLastBackoff{400};
  static constexpr std::chrono::milliseconds kConnectTimeout{500};

  void Connect();
  void ConnectTo(Endpoints endpoints, std::size_t next);
  void LogIn();
  void QueueLogin(const std::vector<std::string_view>& command);
  void OnLoginReply(const redisReply& reply);
  void Read();
  void OnRead(std::size_t bytes);
  void WriteWhenPossible();
  void Fail(std::string_view cause);
  void CloseSocket();

  // Wraps a handler so that it runs in a turn, and only if the connection has not begun anew since.
  template <typename Handler>
  auto ForThisAttempt(Handler handler) {
    return [this, attempt = attempt_, handler](auto&&... arguments) {
      const Turn turn(listener_);
      if (attempt == attempt_) handler(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  boost::asio::io_context& io_;
  const RedisUrl url_;
  Listener& listener_;
  State state_ = State::kStopped;
  std::uint64_t attempt_ = 0;
  Socket socket_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds backoff_ = kFirstBackoff;
  std::minstd_rand random_{std::random_device{}()};
  bool failure_logged_ = false;
  struct ReaderDeleter {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, ReaderDeleter> reader_;
  std::vector<char> input_;
  std::string output_;
  bool writing_ = false;
  std::deque<std::string> login_steps_;  // names of the commands not yet replied to
};

}  // namespace sluice::redis
