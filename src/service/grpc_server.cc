#include "service/grpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <vector>

#include <absl/synchronization/mutex.h>
#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unix_socket.h"
#include "service/admin_service.h"
#include "service/call_queue.h"
#include "service/channel_arguments.h"
#include "service/check_limit_call.h"
#include "service/check_limits_call.h"
#include "service/check_stream_call.h"
#include "service/health_check_call.h"
#include "service/health_service.h"
#include "service/health_watch_call.h"
#include "service/lease_rpc_call.h"
#include "service/rate_limiter_service.h"

namespace sluice {
namespace {

// Beside our asynchronous calls the synchronous ones are few: reflection, and the operators', which
// block. One thread waits for the next call; one that serves is another's to replace.
void LimitSyncThreads(grpc::ServerBuilder& builder) {
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

// A queue's first thread receives more checks than Redis' one thread decides by eight of them.
constexpr unsigned kMaxQueues = 8;

// The other half of the cores is for the threads that answer, and the queues' second ones.
std::size_t QueueCount(std::size_t wanted) {
  if (wanted > 0) return wanted;
  return std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMaxQueues);
}

// Calls have the service they are RPCs of, and who decides them.
template <typename Call, typename... Parts>
CallFactory KindOf(Parts&... parts) {
  return [&parts...](CallPool& pool) { return std::make_unique<Call>(pool, parts...); };
}

// All that is served on completion queues.
std::vector<CallFactory> CallKinds(RateLimiterService& service, HealthService& health,
                                   Limiter& limiter, CheckItemPool& items) {
  return {KindOf<CheckLimitCall>(service, limiter),
          KindOf<CheckLimitsCall>(service, items),
          KindOf<CheckStreamCall>(service, items),
          KindOf<RenewLeaseCall>(service, limiter),
          KindOf<ReleaseLeaseCall>(service, limiter),
          KindOf<HealthCheckCall>(health),
          KindOf<HealthWatchCall>(health)};
}

void LogFromGrpc(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::err
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", args->message);
}

// So long without a request: the callers have left.
constexpr std::chrono::milliseconds kQuiet(50);

}  // namespace

// The server dies before the queues, the queues before the services and the items.
struct GrpcServer::State {
  State(Limiter& limiter, const Options& options)
      : address(options.address),
        admin_door(options.admin_door),
        admin_service(limiter, admin_door, options.rules),
        check_items(limiter) {}

  std::uint64_t Requests() const;
  bool CallsUnderWay() const;
  // Whether there was a moment without calls.
  bool WaitUntilQuiet(std::chrono::milliseconds at_most) const;
  // Ends them, and waits until they are over or cannot be waited for any longer.
  void EndStreams(SteadyTime until) const;

  Address address;
  RateLimiterService rate_limiter_service;
  HealthService health_service;
  const AdminDoor admin_door;
  AdminService admin_service;
  CheckItemPool check_items;
  std::vector<std::unique_ptr<CallQueue>> queues;
  std::unique_ptr<grpc::Server> server;
  bool stopped = false;
};

std::uint64_t GrpcServer::State::Requests() const {
  std::uint64_t sum = 0;
  for (const auto& queue : queues) sum += queue->requests();
  return sum;
}

bool GrpcServer::State::CallsUnderWay() const {
  return std::any_of(queues.begin(), queues.end(),
                     [](const auto& queue) { return queue->under_way() > 0; });
}

// gRPC's own shutdown cancels the calls that cross it on the wire, so it must not come before the
// callers that heed the health service are gone.
bool GrpcServer::State::WaitUntilQuiet(std::chrono::milliseconds at_most) const {
  const SteadyTime end = SteadyNow() + at_most;
  std::uint64_t before = Requests();
  while (SteadyNow() < end) {
    std::this_thread::sleep_for(std::min(kQuiet, at_most));
    const std::uint64_t now = Requests();
    if (now == before && !CallsUnderWay()) return true;
    before = now;
  }
  return false;
}

// Before gRPC's own shutdown, which would give them no status but a cancellation.
void GrpcServer::State::EndStreams(SteadyTime until) const {
  for (const auto& queue : queues) queue->EndStreams();
  const auto open = [](const auto& queue) { return queue->streams() > 0; };
  while (std::any_of(queues.begin(), queues.end(), open) && SteadyNow() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() { Stop(std::chrono::milliseconds(0)); }

const Address& GrpcServer::address() const { return state_->address; }

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(Limiter& limiter, const Options& options) {
  if (options.address.is_unix()) {
    if (auto free = RemoveStaleSocket(options.address.unix_path); !free) return free.error();
  }
  grpc::EnableDefaultHealthCheckService(false);  // ours instead: see HealthService
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  auto state = std::make_unique<State>(limiter, options);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address.ToString(), grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_request_bytes));
  SetChannelArguments(builder);
  LimitSyncThreads(builder);
  builder.RegisterService(&state->rate_limiter_service);
  builder.RegisterService(&state->admin_service);
  builder.RegisterService(&state->health_service);
  const auto kinds =
      CallKinds(state->rate_limiter_service, state->health_service, limiter, state->check_items);
  for (std::size_t i = 0; i < QueueCount(options.queues); ++i) {
    state->queues.push_back(
        std::make_unique<CallQueue>(builder.AddCompletionQueue(), kinds, limiter.store()));
  }
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot listen on {} for gRPC: the address is in use or not allowed",
                             options.address.ToString())};
  }
  if (!options.address.is_unix()) state->address.port = static_cast<std::uint16_t>(port);
  for (std::size_t i = 0; i < state->queues.size(); ++i) {
    state->queues[i]->Start(fmt::format("grpc-{}", i));
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

void GrpcServer::Stop(std::chrono::milliseconds drain) {
  if (std::exchange(state_->stopped, true)) return;
  state_->health_service.StopServing();
  const SteadyTime end = SteadyNow() + drain;
  const bool quiet = state_->WaitUntilQuiet(drain / 2);
  state_->EndStreams(end);
  // An idle client may not hear for seconds that it should close its connection.
  const auto rest = std::chrono::duration_cast<Duration>(end - SteadyNow());
  const std::chrono::system_clock::time_point deadline =
      Clock::System().Now() + (quiet ? std::min<Duration>(rest, kQuiet) : rest);
  state_->server->Shutdown(deadline);
  for (auto& queue : state_->queues) queue->Stop();
}

void SetUpGrpc() {
  gpr_set_log_function(LogFromGrpc);
  // Debian builds Abseil with its deadlock detector: a graph of all mutexes, behind one lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace sluice
