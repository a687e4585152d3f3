#include "store/redis/connection.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "net/tls_transport.h"
#include "store/redis/redis_error.h"
#include "store/redis/script.h"

namespace sluice::redis {
namespace {

void AppendSize(char kind, std::size_t size, std::string& out) {
  const fmt::format_int digits(size);
  out += kind;
  out.append(digits.data(), digits.size()).append("\r\n");
}

// Whether the reply is [1].
bool IsListOfOne(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements == 1 &&
         reply.element[0]->type == REDIS_REPLY_INTEGER && reply.element[0]->integer == 1;
}

// Whether this is a master's reply to ROLE.
bool IsMaster(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements > 0 &&
         TextOf(*reply.element[0]) == "master";
}

// Whether the login can continue after this error. A connection without a name (CLIENT SETNAME) can
// still send checks. If the user may not call SCRIPT EXISTS, the script is loaded at every login.
// Other errors, such as NOAUTH, affect all steps.
bool MayGoOn(std::string_view refused_step, std::string_view error) {
  return (refused_step == "CLIENT" || refused_step == "EXISTS") &&
         (WordOf(error) == "NOPERM" || error.find("nknown ") != error.npos);
}

// The error of a command that carried a secret. The error's own text is left out, since it may
// quote the secret.
std::string WithoutText(std::string_view error) {
  const auto kind = KindOf(error);
  return fmt::format("{} (its text is not logged: it may quote the password)",
                     kind ? kErrorKinds[*kind].word : "an error");
}

}  // namespace

std::string_view TextOf(const redisReply& reply) {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

void AppendCommand(std::span<const std::string_view> command, std::string& out) {
  AppendSize('*', command.size(), out);
  for (const std::string_view argument : command) {
    AppendSize('$', argument.size(), out);
    out.append(argument).append("\r\n");
  }
}

Connection::Connection(net::Loop& loop, ServerAccess access, ServerStatus& status, Owner& owner)
    : loop_(loop),
      access_(std::move(access)),
      status_(status),
      owner_(owner),
      timer_(loop.timers(), [this] { OnTime(); }) {}

Connection::~Connection() = default;

void Connection::Start() { Connect(); }

void Connection::Stop() {
  Disconnect();
  state_ = State::kStopped;
}

// Resolving the peer's address has no time limit; connecting and logging in have separate limits.
void Connection::Connect() {
  const auto address = owner_.AddressToTry();
  if (!address) {
    WaitToRetry();
    return owner_.OnFailedAttempt({});
  }
  state_ = State::kConnecting;
  connecting_ = loop_.Connect(*address, kConnectTimeout, net::FlushStage::kStore,
                              [this, address = *address](Result<net::TransportPtr> transport) {
                                connecting_.reset();
                                if (!transport) return Fail(transport.error().message);
                                LogIn(std::move(transport).value(), address);
                              });
}

void Connection::LogIn(net::TransportPtr transport, const Address& address) {
  state_ = State::kLoggingIn;
  if (access_.tls != nullptr) {
    transport = net::ConnectTls(loop_, std::move(transport), *access_.tls,
                                access_.server_name.empty() ? address.host : access_.server_name);
  }
  transport_ = std::move(transport);
  reader_.emplace();
  timer_.Start(loop_.now() + kLoginTimeout);
  const auto& [user, fixed_password, database, client_name] = access_.login;
  const std::string password = access_.password ? access_.password->Get() : fixed_password;
  if (!password.empty() && user.empty()) QueueLogin({"AUTH", password});
  if (!password.empty() && !user.empty()) QueueLogin({"AUTH", user, password});
  if (database != 0) QueueLogin({"SELECT", std::to_string(database)});
  QueueLogin({"CLIENT", "SETNAME", client_name});
  if (access_.must_be_master) QueueLogin({"ROLE"});
  if (access_.loads_script) QueueLogin({"SCRIPT", "EXISTS", kCheckScript.sha1});
  transport_->Start(*this);
  transport_->RequestFlush();
}

void Connection::QueueLogin(std::initializer_list<std::string_view> command) {
  AppendCommand(command, output_);
  const bool is_pair = *command.begin() == "SCRIPT";
  login_steps_.emplace_back(is_pair ? *(command.begin() + 1) : *command.begin());
}

void Connection::OnLoginReply(const redisReply& reply) {
  const std::string step = std::move(login_steps_.front());
  login_steps_.pop_front();
  if (reply.type == REDIS_REPLY_ERROR && !MayGoOn(step, TextOf(reply))) {
    return step == "AUTH" ? Fail(WithoutText(TextOf(reply)), step) : Fail(TextOf(reply), step);
  }
  // If a whole fleet reconnects at once, not every connection needs to load the script.
  if (step == "EXISTS" && !IsListOfOne(reply)) {
    QueueLogin({"SCRIPT", "LOAD", kCheckScript.text});
    return transport_->RequestFlush();
  }
  if (step == "ROLE" && !IsMaster(reply)) return Fail("it is not a master");
  if (!login_steps_.empty()) return;
  timer_.Cancel();
  state_ = State::kReady;
  if (!counts_as_failing_) status_.OnServing();
  owner_.OnReady();
}

void Connection::OnTime() {
  if (state_ == State::kWaiting) return Connect();
  Fail("no answer to the login in time");
}

void Connection::Send(std::initializer_list<std::string_view> command) {
  AppendCommand(command, output_);
  transport_->RequestFlush();
}

void Connection::SendFormatted(std::string_view commands) {
  output_.append(commands);
  transport_->RequestFlush();
}

void Connection::Restart(std::string_view cause) {
  counts_as_failing_ = true;
  Fail(cause);
}

void Connection::ReconnectElsewhere() {
  Disconnect();
  Connect();
}

void Connection::MarkHealthy() {
  pause_ = kFirstPause;
  if (std::exchange(counts_as_failing_, false)) status_.OnServing();
}

void Connection::Fail(std::string_view cause, std::string_view refused_step) {
  const bool was_ready = ready();
  Disconnect();
  std::string what(was_ready ? "connection lost" : "cannot connect");
  if (!refused_step.empty()) what += fmt::format(": {} was refused", refused_step);
  status_.OnFailing(what, cause, loop_.now());
  WaitToRetry();
  was_ready ? owner_.OnDown(cause) : owner_.OnFailedAttempt(cause);
}

// Half of the pause is random, so that the servers of a fleet do not all reconnect at once.
void Connection::WaitToRetry() {
  state_ = State::kWaiting;
  const std::chrono::microseconds half = pause_ / 2;
  const std::chrono::microseconds jitter(loop_.Random() %
                                         static_cast<std::uint64_t>(half.count() + 1));
  timer_.Start(loop_.now() + half + jitter);
  pause_ = std::min(2 * pause_, kLastPause);
}

void Connection::Disconnect() {
  ++attempt_;
  timer_.Cancel();
  connecting_.reset();
  transport_.reset();
  output_.clear();
  login_steps_.clear();
}

void Connection::Receive(std::string_view bytes) {
  reader_->Feed(bytes);
  const std::uint64_t attempt = attempt_;
  while (attempt == attempt_) {
    const bool logging_in = state_ == State::kLoggingIn;
    const auto reply = reader_->Next(logging_in ? kLoginReply : owner_.LargestReply());
    if (!reply) return Restart(reply.error().message);
    if (*reply == nullptr) {
      if (ready()) owner_.OnPartOfReply();
      return;
    }
    logging_in ? OnLoginReply(**reply) : owner_.OnReply(**reply);
  }
}

void Connection::TakeOutput(std::string& out) {
  if (out.empty()) {
    out.swap(output_);
  } else {
    out.append(output_);
  }
  output_.clear();
}

void Connection::OnClosed(Closure, std::string_view cause) { Fail(cause); }

}  // namespace sluice::redis
