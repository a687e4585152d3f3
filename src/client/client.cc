#include "client/client.h"

#include <utility>

#include <grpcpp/create_channel.h>

#include "client/connection.h"
#include "client/duration.h"
#include "client/status.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace sluice {
namespace {

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const ClientCredentials& given) {
  if (!given.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = given.ca;
  options.pem_cert_chain = given.certificate;
  options.pem_private_key = given.key;
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::Channel> Connect(const Address& address,
                                       const ClientCredentials& credentials) {
  grpc::ChannelArguments arguments;
  // The server is on the local network, so `http_proxy` is ignored and reconnects are quick.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  if (!credentials.server_name.empty()) {
    arguments.SetSslTargetNameOverride(credentials.server_name);
  }
  arguments.SetMaxReceiveMessageSize(-1);  // rules may be many, and the server is one we trust
  return grpc::CreateCustomChannel(address.ToString(), ChannelCredentialsOf(credentials),
                                   arguments);
}

}  // namespace

Client::Client(Address address, const ClientCredentials& credentials)
    : address_(std::move(address)), connection_(std::make_unique<Connection>()) {
  connection_->channel = Connect(address_, credentials);
  connection_->token = credentials.token;
  connection_->stub = v1::RateLimiter::NewStub(connection_->channel);
}

Client::~Client() = default;

Result<v1::CheckLimitResponse> Client::Check(const v1::CheckLimitRequest& request,
                                             Duration timeout) {
  grpc::ClientContext context;
  connection_->Prepare(context, timeout);
  v1::CheckLimitResponse response;
  const grpc::Status status = connection_->stub->CheckLimit(&context, request, &response);
  if (!status.ok()) return ToError(status);
  return response;
}

Result<Duration> Client::RenewLease(const std::string& lease_id, Duration timeout) {
  grpc::ClientContext context;
  connection_->Prepare(context, timeout);
  v1::RenewLeaseRequest request;
  request.set_lease_id(lease_id);
  v1::RenewLeaseResponse response;
  const grpc::Status status = connection_->stub->RenewLease(&context, request, &response);
  if (!status.ok()) return ToError(status);
  return ToDuration(response.ttl());
}

Result<void> Client::ReleaseLease(const std::string& lease_id, Duration timeout) {
  grpc::ClientContext context;
  connection_->Prepare(context, timeout);
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(lease_id);
  v1::ReleaseLeaseResponse response;
  const grpc::Status status = connection_->stub->ReleaseLease(&context, request, &response);
  if (!status.ok()) return ToError(status);
  return {};
}

Result<bool> Client::IsServing(Duration timeout) {
  grpc::ClientContext context;
  connection_->Prepare(context, timeout);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      grpc::health::v1::Health::NewStub(connection_->channel)->Check(&context, {}, &response);
  if (!status.ok()) return ToError(status);
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

bool Client::connected() const {
  return connection_->channel->GetState(false) == GRPC_CHANNEL_READY;
}

}  // namespace sluice
