// Tests what clients/testing/run.py cannot: functions of the application that throw, and a server
// that hangs. Prints the tests, and exits with status 1 if one fails.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "sluice/client.h"

namespace {

using sluice::v1::HoldOutcome;

constexpr std::chrono::minutes kSoon(1);          // long, because the machine may be busy
constexpr std::chrono::milliseconds kShort(300);  // a ttl; a renewal comes soon

const sluice::Options kPatient = [] {
  sluice::Options options;
  options.deadline = options.drain = kSoon;
  return options;
}();

void Require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// A server that grants leases and notes the calls.
class Fake final : public sluice::v1::RateLimiter::Service {
 public:
  explicit Fake(std::chrono::milliseconds ttl) : ttl_(ttl) {
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_)
                  .RegisterService(this)
                  .BuildAndStart();
  }
  ~Fake() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // So many further calls fail with UNAVAILABLE.
  void Fail(int calls) {
    const std::lock_guard lock(mutex_);
    failures_ = calls;
  }

  int CountOf(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return counts_[name];
  }

  // Waits until so many calls with this name have succeeded.
  void Await(const std::string& name, int count) {
    std::unique_lock lock(mutex_);
    Require(changed_.wait_for(lock, kSoon, [&] { return counts_[name] >= count; }), "no " + name);
  }

  // The outcomes that were reported.
  std::vector<HoldOutcome> outcomes() {
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }

  grpc::Status CheckLimit(grpc::ServerContext*, const sluice::v1::CheckLimitRequest*,
                          sluice::v1::CheckLimitResponse* response) override {
    response->set_decision(sluice::v1::DECISION_ALLOWED);
    response->mutable_lease()->set_id("lease");
    response->mutable_lease()->mutable_ttl()->set_seconds(ttl_.count() / 1000);
    response->mutable_lease()->mutable_ttl()->set_nanos(ttl_.count() % 1000 * 1'000'000);
    return Note("check");
  }

  grpc::Status RenewLease(grpc::ServerContext*, const sluice::v1::RenewLeaseRequest*,
                          sluice::v1::RenewLeaseResponse*) override {
    return Note("renewal");
  }

  grpc::Status ReleaseLease(grpc::ServerContext*, const sluice::v1::ReleaseLeaseRequest* request,
                            sluice::v1::ReleaseLeaseResponse*) override {
    return NoteEnd("release", request->hold_outcome());
  }

  grpc::Status SettleLease(grpc::ServerContext*, const sluice::v1::SettleLeaseRequest* request,
                           sluice::v1::SettleLeaseResponse* response) override {
    response->set_outcome(sluice::v1::OUTCOME_SETTLED);
    return NoteEnd("settlement", request->hold_outcome());
  }

 private:
  grpc::Status Note(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (failures_ > 0) {
      --failures_;
      return {grpc::StatusCode::UNAVAILABLE, "no store"};
    }
    ++counts_[name];
    changed_.notify_all();
    return grpc::Status::OK;
  }

  grpc::Status NoteEnd(const std::string& name, HoldOutcome outcome) {
    const grpc::Status status = Note(name);
    const std::lock_guard lock(mutex_);
    if (status.ok()) outcomes_.push_back(outcome);
    return status;
  }

  const std::chrono::milliseconds ttl_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int failures_ = 0;                   // guarded by mutex_
  std::map<std::string, int> counts_;  // by name; guarded by mutex_
  std::vector<HoldOutcome> outcomes_;  // guarded by mutex_
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The function of a token that is being replaced.
class Flaky {
 public:
  void ThrowOnce() {
    const std::lock_guard lock(mutex_);
    throws_ = true;
  }

  void AwaitThrown() {
    std::unique_lock lock(mutex_);
    Require(changed_.wait_for(lock, kSoon, [&] { return !throws_; }), "no call");
  }

  std::string Get() {
    const std::lock_guard lock(mutex_);
    if (!throws_) return "t";
    throws_ = false;
    changed_.notify_all();
    throw std::runtime_error("the token is being replaced");
  }

  sluice::Options OptionsOf() {
    sluice::Options options = kPatient;
    options.token = [this] { return Get(); };
    return options;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool throws_ = false;  // guarded by mutex_
};

// What is written to stderr while this object exists.
class Log {
 public:
  Log() : stderr_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~Log() { std::cerr.rdbuf(stderr_); }

  void RequireOneLine(const std::string& part) const {
    const std::string text = text_.str();
    const auto found = text.find(part);
    Require(found != std::string::npos && text.find(part, found + 1) == std::string::npos, text);
  }

 private:
  std::ostringstream text_;
  std::streambuf* const stderr_;
};

void RenewsAfterTheTokenThrows() {
  Fake server(kShort);
  Flaky token;
  sluice::Client client(server.address(), token.OptionsOf());
  const sluice::Permit permit = client.Acquire("shop", {});
  token.ThrowOnce();
  token.AwaitThrown();
  server.Await("renewal", server.CountOf("renewal") + 1);
}

void ReleasesAndSettlesAfterTheTokenThrows() {
  Fake server(kSoon);
  Flaky token;
  {
    sluice::Client client(server.address(), token.OptionsOf());
    sluice::Reservation reservation = client.Reserve(sluice::Request("shop", {}));
    token.ThrowOnce();
    reservation.Settle();
    Require(client.Close() == 0, "a settlement is lost");
    Require(server.CountOf("settlement") == 1, "no settlement");
  }
  {
    sluice::Client client(server.address(), token.OptionsOf());
    const sluice::Permit permit = client.Acquire("shop", {});
    token.ThrowOnce();
  }  // the client waits for the release
  Require(server.CountOf("release") == 1, "no release");
}

// The policy decides, and the log says why, once.
void ChecksHaveNoAnswerIfTheTokenThrows() {
  Fake server(kSoon);
  Flaky token;
  sluice::Client client(server.address(), token.OptionsOf());
  const Log log;
  for (const bool blocking : {true, false}) {
    token.ThrowOnce();
    std::promise<sluice::Decision> decided;
    if (blocking) {
      decided.set_value(client.Check("shop", {}));
    } else {
      client.CheckAsync("shop", {},
                        [&](const sluice::Decision& decision) { decided.set_value(decision); });
    }
    const sluice::Decision decision = decided.get_future().get();
    Require(decision.allowed && !decision.answered && decision.error.ok(), "answered");
    Require(decision.failure.error_message() == "Options::token threw: the token is being replaced",
            decision.failure.error_message());
  }
  Require(server.CountOf("check") == 0, "a check was sent");
  log.RequireOneLine("the token is being replaced");
}

void ReleasesAndSettlesIfOverloadedThrows() {
  Fake server(kSoon);
  const Log log;
  {
    sluice::Options options = kPatient;
    options.overloaded = []() -> bool { throw std::runtime_error("no cgroup"); };
    sluice::Client client(server.address(), options);
    client.Acquire("shop", {});
    client.Reserve(sluice::Request("shop", {}));
  }
  Require(server.outcomes() == std::vector<HoldOutcome>(2, sluice::v1::HOLD_OUTCOME_OK), "not OK");
  log.RequireOneLine("no cgroup");
}

void RepeatsRenewalsAndReleasesAfterUnavailable() {
  {
    Fake server(kShort);
    sluice::Client client(server.address(), kPatient);
    const sluice::Permit permit = client.Acquire("shop", {});
    server.Fail(2);
    server.Await("renewal", server.CountOf("renewal") + 1);
  }
  Fake server(kSoon);
  {
    sluice::Client client(server.address(), kPatient);
    const sluice::Permit permit = client.Acquire("shop", {});
    server.Fail(6);  // more than gRPC's attempts of a call
  }
  Require(server.CountOf("release") == 1, "no release");
}

// The client's side of the first connection to a server that hangs after it has answered a PING.
class Hanging {
 public:
  Hanging() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* const generic = reinterpret_cast<sockaddr*>(&address_);
    Require(bind(listening_, generic, size) == 0 && listen(listening_, 1) == 0 &&
                getsockname(listening_, generic, &size) == 0,
            "the server does not listen");
    thread_ = std::thread([this] { pings_.set_value(CountPings()); });
  }
  ~Hanging() {
    shutdown(listening_, SHUT_RDWR);
    thread_.join();
    close(listening_);
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }

  // How many PINGs have come when the client closes the connection.
  std::future<int> pings() { return pings_.get_future(); }

 private:
  static bool Read(int connection, std::string& bytes) {
    return recv(connection, bytes.data(), bytes.size(), MSG_WAITALL) ==
           static_cast<ssize_t>(bytes.size());
  }

  int CountPings() const {
    const int connection = accept(listening_, nullptr, nullptr);
    const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
    send(connection, settings.data(), settings.size(), MSG_NOSIGNAL);
    int pings = 0;
    std::string preface(24, ' ');
    std::string header(9, ' ');
    for (bool open = Read(connection, preface); open && Read(connection, header);) {
      const auto byte = [&](int index) { return static_cast<unsigned char>(header[index]); };
      std::string payload(byte(0) << 16 | byte(1) << 8 | byte(2), ' ');
      open = payload.empty() || Read(connection, payload);
      const bool is_ping = byte(3) == 6 && byte(4) == 0;
      if (!is_ping || ++pings > 1) continue;
      header[4] = 1;  // the answer
      const std::string answer = header + payload;
      send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    close(connection);
    return pings;
  }

  const int listening_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address_{};
  std::promise<int> pings_;
  std::thread thread_;
};

// There are no calls. The second PING shows that the client has kept the connection after the
// answer to the first.
void ClosesTheConnectionToAHungServerOnly() {
  Hanging server;
  std::future<int> pings = server.pings();
  bool is_closed = false;
  {
    const sluice::Client client(server.address());
    is_closed = pings.wait_for(2 * kSoon) == std::future_status::ready;
  }  // closes the connection in any case
  Require(is_closed, "the client keeps the connection");
  Require(pings.get() == 2, "the client has closed a connection that works");
}

}  // namespace

int main() {
  const std::vector<std::pair<const char*, void (*)()>> tests = {
      {"RenewsAfterTheTokenThrows", RenewsAfterTheTokenThrows},
      {"ReleasesAndSettlesAfterTheTokenThrows", ReleasesAndSettlesAfterTheTokenThrows},
      {"ChecksHaveNoAnswerIfTheTokenThrows", ChecksHaveNoAnswerIfTheTokenThrows},
      {"ReleasesAndSettlesIfOverloadedThrows", ReleasesAndSettlesIfOverloadedThrows},
      {"RepeatsRenewalsAndReleasesAfterUnavailable", RepeatsRenewalsAndReleasesAfterUnavailable},
      {"ClosesTheConnectionToAHungServerOnly", ClosesTheConnectionToAHungServerOnly}};
  int status = 0;
  for (const auto& [name, test] : tests) {
    std::cout << name << std::endl;
    try {
      test();
    } catch (const std::exception& failure) {
      std::cout << "failed: " << failure.what() << std::endl;
      status = 1;
    }
  }
  return status;
}
