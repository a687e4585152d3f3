#include "sluice/client.h"

#include <thread>
#include <utility>

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include "lease_keeper.h"
#include "pending_calls.h"

namespace sluice {
namespace {

// A check is never sent twice, since it may have been counted. Calls that end or renew a lease are
// idempotent, so gRPC may repeat them.
constexpr char kServiceConfig[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [{
    "name": [{"service": "sluice.v1.RateLimiter", "method": "RenewLease"},
             {"service": "sluice.v1.RateLimiter", "method": "ReleaseLease"},
             {"service": "sluice.v1.RateLimiter", "method": "SettleLease"}],
    "waitForReady": true,
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
                    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}
  }]
})";

std::shared_ptr<grpc::Channel> Connect(const std::string& target, const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A server that hangs is noticed by PINGs, also while there are no calls. gRPC then reads only
  // every 5 s, so the timeout must be longer.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number
  arguments.SetServiceConfigJSON(kServiceConfig);
  auto channel = grpc::CreateCustomChannel(
      target, options.credentials ? options.credentials : grpc::InsecureChannelCredentials(),
      arguments);
  channel->WaitForConnected(std::chrono::system_clock::now() + options.connect_timeout);
  return channel;
}

void Set(std::chrono::milliseconds value, google::protobuf::Duration& duration) {
  duration.set_seconds(value.count() / 1000);
  duration.set_nanos(static_cast<int>(value.count() % 1000) * 1'000'000);
}

// Sets max_wait to its default, unless the request has a max_wait or max_delay.
void SetMaxWait(const Options& options, v1::CheckLimitRequest& request) {
  if (!options.max_wait || request.has_max_wait() || request.has_max_delay()) return;
  Set(*options.max_wait, *request.mutable_max_wait());
}

Decision Decide(Options::WithoutAnswer without_answer, const grpc::Status& status,
                v1::CheckLimitResponse response) {
  Decision decision;
  if (!status.ok()) {
    if (IsMistake(status.error_code())) {
      decision.error = status;
    } else {
      decision.allowed = without_answer == Options::WithoutAnswer::kOpen;
      decision.failure = status;
    }
    return decision;
  }
  decision.answered = true;
  decision.allowed = response.decision() == v1::DECISION_ALLOWED;
  decision.wait = ToChrono(response.wait());
  if (response.has_retry_after()) decision.retry_after = ToChrono(response.retry_after());
  decision.response = std::move(response);
  return decision;
}

}  // namespace

Client::Client(const std::string& target, Options options)
    : options_(std::move(options)),
      stub_(v1::RateLimiter::NewStub(Connect(target, options_))),
      calls_(std::make_unique<PendingCalls>(*stub_, options_.token)),
      keeper_(std::make_unique<LeaseKeeper>(*calls_, options_)) {}

Client::~Client() {
  Close();
  keeper_->Stop();
  calls_->Wait();  // for callbacks that use this object and the keeper
}

std::size_t Client::Close() { return keeper_->Close(); }

Permit Client::Acquire(v1::CheckLimitRequest request) {
  Decision decision = Check(std::move(request));
  Lease lease = Hold(decision);
  std::this_thread::sleep_for(decision.wait);
  return Permit(std::move(decision), std::move(lease));
}

Reservation Client::Reserve(v1::CheckLimitRequest request) {
  if (!request.has_lease_ttl()) Set(options_.lease_ttl, *request.mutable_lease_ttl());
  return Reservation(*this, *keeper_, std::move(request));
}

Decision Client::Check(v1::CheckLimitRequest request) {
  SetMaxWait(options_, request);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options_.deadline);
  v1::CheckLimitResponse response;
  grpc::Status status = calls_->Authorize(context);
  if (status.ok()) status = stub_->CheckLimit(&context, request, &response);
  return Decide(options_.without_answer, status, std::move(response));
}

void Client::CheckAsync(v1::CheckLimitRequest request, std::function<void(Decision)> then) {
  SetMaxWait(options_, request);
  calls_->Start<v1::CheckLimitRequest, v1::CheckLimitResponse>(
      &PendingCalls::AsyncStub::CheckLimit, std::move(request), options_.deadline,
      [this, then = std::move(then)](const grpc::Status& status, v1::CheckLimitResponse response) {
        then(Decide(options_.without_answer, status, std::move(response)));
      });
}

Lease Client::Hold(const Decision& decision) {
  const v1::Lease& lease = decision.response.lease();
  return lease.id().empty() ? Lease() : Lease(*keeper_, lease);
}

v1::CheckLimitRequest Request(const std::string& domain, const Attributes& attributes) {
  v1::CheckLimitRequest request;
  request.set_domain(domain);
  request.mutable_attributes()->insert(attributes.begin(), attributes.end());
  return request;
}

void Work::Report(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return Report(v1::HOLD_OUTCOME_OK);
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::UNAVAILABLE:
      return Report(v1::HOLD_OUTCOME_OVERLOAD);
    default:
      return Report(v1::HOLD_OUTCOME_IGNORE);
  }
}

Lease::Lease(LeaseKeeper& keeper, const v1::Lease& lease) : keeper_(&keeper), id_(lease.id()) {
  keeper.Add(lease.id(), lease.ttl());
}

Lease::Lease(Lease&& other) noexcept
    : Work(other), keeper_(std::exchange(other.keeper_, nullptr)), id_(std::move(other.id_)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap<Work>(*this, other);
  std::swap(keeper_, other.keeper_);
  id_.swap(other.id_);
  return *this;
}

Lease::~Lease() {
  if (keeper_ != nullptr) keeper_->Release(id_, *this);
}

}  // namespace sluice
