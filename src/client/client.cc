#include "client/client.h"

#include <future>
#include <optional>
#include <utility>

#include "client/duration.h"
#include "client/http2_connection.h"
#include "grpc/health/v1/health.pb.h"

namespace sluice {
namespace {

// A call with one response. Loop thread only, except WaitUntil.
class UnaryCall final : public LoneCall {
 public:
  using LoneCall::LoneCall;

  // Waits for the end of the call, at most until `deadline`. Thread-safe. May be called only once.
  void WaitUntil(SteadyTime deadline) { ended_.get_future().wait_until(deadline); }

  // The response, or the error that ended the call; kDeadlineExceeded if it has not ended.
  Result<std::string> TakeOutcome() {
    if (!status_) {
      return Error{ErrorCode::kDeadlineExceeded,
                   connected() ? "no answer within the timeout" : "the server does not answer"};
    }
    if (status_->code != GrpcStatus::kOk) return ToError(*status_);
    return std::move(response_);
  }

 private:
  void OnMessage(std::string_view message) override { response_.assign(message); }

  void OnStatus(const GrpcStatus& status) override {
    if (status_) return;
    status_ = status;
    ended_.set_value();
  }

  std::string response_;
  std::optional<GrpcStatus> status_;
  std::promise<void> ended_;
};

}  // namespace

Result<std::unique_ptr<Client>> Client::Create(Target target) {
  auto tls = LoadTls(target);
  if (!tls) return tls.error();
  return std::unique_ptr<Client>(new Client(std::move(target), std::move(*tls)));
}

Client::Client(Target target, std::unique_ptr<net::TlsClientContext> tls)
    : target_(std::move(target)), tls_(std::move(tls)) {
  io_.Start();
}

Client::~Client() { io_.Stop(); }

Result<void> Client::CallInto(google::protobuf::Message& response, const char* path,
                              const google::protobuf::Message& request, Duration timeout) {
  const SteadyTime deadline = SteadyNow() + timeout;
  std::unique_ptr<UnaryCall> call;
  io_.RunOn(0, [&](net::EpollLoop& loop) {
    call = std::make_unique<UnaryCall>(loop, target_, tls_.get(), timeout, path,
                                       request.SerializeAsString(), timeout);
  });
  call->WaitUntil(deadline);
  Result<std::string> outcome = Error{};
  io_.RunOn(0, [&](net::EpollLoop& loop) {
    connected_ = call->connected();
    outcome = call->TakeOutcome();
    loop.DisposeLater(std::move(call));
  });
  if (!outcome) return outcome.error();
  if (response.ParseFromString(*outcome)) return {};
  return Error{ErrorCode::kInternal, "the answer is not a valid protobuf message"};
}

Result<v1::CheckLimitResponse> Client::Check(const v1::CheckLimitRequest& request,
                                             Duration timeout) {
  return Call<v1::CheckLimitResponse>("/sluice.v1.RateLimiter/CheckLimit", request, timeout);
}

Result<Duration> Client::RenewLease(const std::string& lease_id, Duration timeout) {
  v1::RenewLeaseRequest request;
  request.set_lease_id(lease_id);
  const auto response =
      Call<v1::RenewLeaseResponse>("/sluice.v1.RateLimiter/RenewLease", request, timeout);
  if (!response) return response.error();
  return ToDuration(response->ttl());
}

Result<v1::SettleLeaseResponse> Client::SettleLease(const v1::SettleLeaseRequest& request,
                                                    Duration timeout) {
  return Call<v1::SettleLeaseResponse>("/sluice.v1.RateLimiter/SettleLease", request, timeout);
}

Result<void> Client::ReleaseLease(const v1::ReleaseLeaseRequest& request, Duration timeout) {
  const auto response =
      Call<v1::ReleaseLeaseResponse>("/sluice.v1.RateLimiter/ReleaseLease", request, timeout);
  if (!response) return response.error();
  return {};
}

Result<bool> Client::IsServing(Duration timeout) {
  using grpc::health::v1::HealthCheckResponse;
  const auto response = Call<HealthCheckResponse>("/grpc.health.v1.Health/Check",
                                                  grpc::health::v1::HealthCheckRequest(), timeout);
  if (!response) return response.error();
  return response->status() == HealthCheckResponse::SERVING;
}

}  // namespace sluice
