#include "rpc/grpc/server.h"

#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <absl/synchronization/mutex.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/unix_socket.h"
#include "rpc/grpc/channel_arguments.h"
#include "rpc/grpc/credentials.h"
#include "rpc/grpc/loop_calls.h"
#include "rpc/grpc/reactor.h"

namespace sluice::rpc::grpc_engine {
namespace {

// After this time without calls, callers count as gone.
constexpr std::chrono::milliseconds kQuiet(50);

void LogFromGrpc(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::err
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", args->message);
}

// Settings for all of gRPC in this process.
bool SetUpGrpc() {
  gpr_set_log_function(LogFromGrpc);
  // Debian builds Abseil with its deadlock detector, which takes one global lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  ::grpc::EnableDefaultHealthCheckService(false);
  return true;
}

// Rejects a call that no handler serves.
class Refusal final : public ::grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(::grpc::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

class GrpcServer final : public Server, private ::grpc::CallbackGenericService {
 public:
  GrpcServer(net::IoThreads& threads, Methods methods, const ServerOptions& options);
  ~GrpcServer() override;

  Result<void> Listen(const ServerOptions& options);
  const Address& address() const override { return address_; }
  void Stop(Duration drain) override;

 private:
  ::grpc::ServerGenericBidiReactor* CreateReactor(Reactor::Context* context) override;
  bool WaitUntilQuiet(SteadyTime until) const;

  net::IoThreads& threads_;
  const Methods methods_;
  std::unordered_map<std::string, std::size_t> by_path_;
  std::vector<std::unique_ptr<LoopCalls>> calls_;  // by io thread
  std::atomic<std::size_t> next_ = 0;              // index into calls_, modulo its size
  CallCount count_;
  Address address_;
  std::shared_ptr<::grpc::ServerCredentials> credentials_;
  std::unique_ptr<::grpc::Server> server_;
};

GrpcServer::GrpcServer(net::IoThreads& threads, Methods methods, const ServerOptions& options)
    : threads_(threads),
      methods_(std::move(methods)),
      count_(options.max_calls),
      address_(options.address) {
  for (std::size_t i = 0; i < methods_.size(); ++i) by_path_.emplace(methods_[i].path, i);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    calls_.push_back(std::make_unique<LoopCalls>(threads_.loop(i), methods_));
  }
}

// Handlers may own timers of their loops, so they are destroyed on the loops' threads.
GrpcServer::~GrpcServer() {
  Stop(Duration(0));
  threads_.RunOnEach([this](net::EpollLoop& loop) { calls_[loop.index()].reset(); });
}

Result<void> GrpcServer::Listen(const ServerOptions& options) {
  if (address_.is_unix()) {
    if (auto free = RemoveStaleSocket(address_.unix_path); !free) return free.error();
  }
  ::grpc::ServerBuilder builder;
  int port = 0;
  credentials_ =
      options.tls != nullptr ? CredentialsOf(*options.tls) : ::grpc::InsecureServerCredentials();
  builder.AddListeningPort(address_.ToString(), credentials_, &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  SetChannelArguments(options, builder);
  builder.RegisterCallbackGenericService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot listen on {} for gRPC: the address is in use or not allowed",
                             address_.ToString())};
  }
  if (!address_.is_unix()) {
    address_.port = static_cast<std::uint16_t>(port);
  } else if (options.socket_mode && chmod(address_.unix_path.c_str(), *options.socket_mode) != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot set the permissions of {}", address_.ToString())};
  }
  return {};
}

::grpc::ServerGenericBidiReactor* GrpcServer::CreateReactor(Reactor::Context* context) {
  const auto found = by_path_.find(context->method());
  if (found == by_path_.end()) {
    return new Refusal(
        {::grpc::StatusCode::UNIMPLEMENTED, fmt::format("unknown method {}", context->method())});
  }
  if (!count_.Open()) {
    return new Refusal({::grpc::StatusCode::UNAVAILABLE, "too many calls are open"});
  }
  const std::size_t turn = next_.fetch_add(1, std::memory_order_relaxed);
  return Reactor::Start(*calls_[turn % calls_.size()], found->second, count_, *context);
}

// gRPC rejects calls that arrive during its shutdown, so callers get time to leave before it.
bool GrpcServer::WaitUntilQuiet(SteadyTime until) const {
  std::size_t before = count_.total();
  while (SteadyNow() < until) {
    std::this_thread::sleep_for(std::min<SteadyTime::duration>(kQuiet, until - SteadyNow()));
    if (std::exchange(before, count_.total()) == count_.total() && count_.open() == 0) return true;
  }
  return false;
}

// The last RunOnEach waits until the loops have run all events that calls have posted.
void GrpcServer::Stop(Duration drain) {
  if (server_ == nullptr) return;
  const SteadyTime end = SteadyNow() + drain;
  threads_.RunOnEach([this](net::EpollLoop& loop) { calls_[loop.index()]->Drain(); });
  const bool quiet = WaitUntilQuiet(end - drain / 2);
  // An idle caller may take seconds to close its connection.
  const SteadyTime last = quiet ? std::min(end, SteadyNow() + kQuiet) : end;
  const std::chrono::system_clock::time_point deadline =
      Clock::System().Now() + std::chrono::duration_cast<Duration>(last - SteadyNow());
  server_->Shutdown(deadline);
  server_.reset();
  threads_.RunOnEach([](net::EpollLoop&) {});
}

}  // namespace

Result<std::unique_ptr<Server>> StartServer(net::IoThreads& threads, Methods methods,
                                            const ServerOptions& options) {
  static const bool set_up = SetUpGrpc();
  static_cast<void>(set_up);
  auto server = std::make_unique<GrpcServer>(threads, std::move(methods), options);
  if (auto listening = server->Listen(options); !listening) return listening.error();
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace sluice::rpc::grpc_engine
