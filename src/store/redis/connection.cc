#include "store/redis/connection.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include <fmt/format.h>

#include "base/log.h"
#include "store/redis/script.h"

namespace sluice::redis {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kReadBytes = 64 * 1024;

struct ReplyDeleter {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};

void AppendCommand(std::span<const std::string_view> command, std::string& out) {
  std::vector<const char*> arguments;
  std::vector<std::size_t> sizes;
  for (const std::string_view argument : command) {
    arguments.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  char* formatted = nullptr;
  const auto bytes = redisFormatCommandArgv(&formatted, static_cast<int>(command.size()),
                                            arguments.data(), sizes.data());
  out.append(formatted, static_cast<std::size_t>(bytes));
  redisFreeCommand(formatted);
}

}  // namespace

void Connection::ReaderDeleter::operator()(redisReader* reader) const { redisReaderFree(reader); }

Connection::Connection(asio::io_context& io, RedisUrl url, Listener& listener)
    : io_(io),
      url_(std::move(url)),
      listener_(listener),
      socket_(io),
      resolver_(io),
      timer_(io),
      input_(kReadBytes) {}

Connection::~Connection() = default;

void Connection::Start() { Connect(); }

void Connection::Stop() {
  CloseSocket();
  state_ = State::kStopped;
}

void Connection::Connect() {
  CloseSocket();
  state_ = State::kConnecting;
  timer_.expires_after(kConnectTimeout);
  timer_.async_wait(ForThisAttempt([this](Error error) {
    if (!error) Fail("no answer in time");
  }));
  if (url_.address.is_unix()) {
    return ConnectTo({asio::local::stream_protocol::endpoint(url_.address.unix_path)}, 0);
  }
  resolver_.async_resolve(
      url_.address.host, std::to_string(url_.address.port),
      ForThisAttempt([this](Error error, asio::ip::tcp::resolver::results_type results) {
        if (error) return Fail(error.message());
        Endpoints endpoints;
        for (const auto& result : results) endpoints.emplace_back(result.endpoint());
        ConnectTo(std::move(endpoints), 0);
      }));
}

void Connection::ConnectTo(Endpoints endpoints, std::size_t next) {
  const auto endpoint = endpoints[next];
  Error ignored;
  socket_.close(ignored);
  socket_.async_connect(endpoint,
                        ForThisAttempt([this, endpoints = std::move(endpoints), next](Error error) {
                          if (!error) return LogIn();
                          if (next + 1 == endpoints.size()) return Fail(error.message());
                          ConnectTo(endpoints, next + 1);
                        }));
}

void Connection::LogIn() {
  state_ = State::kLoggingIn;
  Error ignored;
  if (!url_.address.is_unix()) socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  reader_.reset(redisReaderCreate());
  if (!url_.password.empty() && url_.user.empty()) QueueLogin({"AUTH", url_.password});
  if (!url_.password.empty() && !url_.user.empty()) {
    QueueLogin({"AUTH", url_.user, url_.password});
  }
  if (url_.database != 0) QueueLogin({"SELECT", std::to_string(url_.database)});
  QueueLogin({"CLIENT", "SETNAME", url_.client_name});
  QueueLogin({"SCRIPT", "LOAD", kCheckScript.text});
  Read();
  Flush();
}

void Connection::QueueLogin(const std::vector<std::string_view>& command) {
  AppendCommand(command, output_);
  login_steps_.emplace_back(command.front());
}

void Connection::OnLoginReply(const redisReply& reply) {
  const std::string step = std::move(login_steps_.front());
  login_steps_.pop_front();
  // A user without the right to name its connection can still decide checks.
  if (reply.type == REDIS_REPLY_ERROR && step != "CLIENT") {
    return Fail(fmt::format("{} was refused: {}", step, std::string_view(reply.str, reply.len)));
  }
  if (!login_steps_.empty()) return;
  state_ = State::kReady;
  timer_.cancel();
  failure_logged_ = false;
  spdlog::info("redis {}: connected", url_.ToString());
  listener_.OnReady();
}

void Connection::Send(std::span<const std::string_view> command) {
  AppendCommand(command, output_);
}

void Connection::Flush() {
  if (writing_ || output_.empty()) return;
  Error error;
  // One buffer: Asio uses send, which is never held (base/send_together.h); for several, sendmsg.
  const std::size_t written = socket_.write_some(asio::buffer(output_), error);
  if (error && error != asio::error::would_block) {
    // The reading side will see the end of the connection, in order.
    return;
  }
  output_.erase(0, written);
  if (!output_.empty()) WriteWhenPossible();
}

void Connection::WriteWhenPossible() {
  writing_ = true;
  socket_.async_wait(Socket::wait_write, ForThisAttempt([this](Error error) {
                       writing_ = false;
                       if (!error) Flush();
                     }));
}

void Connection::Read() {
  socket_.async_read_some(asio::buffer(input_),
                          ForThisAttempt([this](Error error, std::size_t bytes) {
                            if (error) return Fail(error.message());
                            OnRead(bytes);
                          }));
}

void Connection::OnRead(std::size_t bytes) {
  redisReaderFeed(reader_.get(), input_.data(), bytes);
  const std::uint64_t attempt = attempt_;
  while (true) {
    void* next = nullptr;
    if (redisReaderGetReply(reader_.get(), &next) != REDIS_OK) {
      return Fail(fmt::format("what it sends is not Redis' protocol: {}", reader_->errstr));
    }
    if (next == nullptr) break;
    const std::unique_ptr<redisReply, ReplyDeleter> reply(static_cast<redisReply*>(next));
    if (state_ == State::kLoggingIn) {
      OnLoginReply(*reply);
    } else {
      listener_.OnReply(*reply);
    }
    if (attempt != attempt_) return;
  }
  listener_.OnIdle();
  if (attempt == attempt_) Read();
}

void Connection::Restart(std::string_view cause) { Fail(cause); }

void Connection::Fail(std::string_view cause) {
  const bool was_ready = ready();
  CloseSocket();
  state_ = State::kWaiting;
  if (!failure_logged_) {
    spdlog::warn(
        "redis {}: {}: {}; rules decide by on_store_failure until it is back, see that it "
        "runs and lets this server log in",
        url_.ToString(), was_ready ? "connection lost" : "cannot connect", cause);
    failure_logged_ = true;
  }
  // Half of the pause is random, so that a fleet does not come back all at once.
  std::uniform_int_distribution<std::int64_t> jitter(backoff_.count() / 2, backoff_.count());
  timer_.expires_after(std::chrono::milliseconds(jitter(random_)));
  timer_.async_wait(ForThisAttempt([this](Error error) {
    if (!error) Connect();
  }));
  backoff_ = std::min(2 * backoff_, kLastBackoff);
  was_ready ? listener_.OnDown() : listener_.OnFailedAttempt();
}

void Connection::CloseSocket() {
  ++attempt_;
  Error ignored;
  socket_.close(ignored);
  resolver_.cancel();
  timer_.cancel();
  output_.clear();
  login_steps_.clear();
  writing_ = false;
}

}  // namespace sluice::redis
