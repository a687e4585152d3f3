#include "client/admin_client.h"

#include "client/connection.h"
#include "client/status.h"
#include "sluice/v1/admin.grpc.pb.h"

namespace sluice {

struct AdminClient::Stub {
  template <typename Request, typename Response>
  using Method = grpc::Status (v1::Admin::Stub::*)(grpc::ClientContext*, const Request&, Response*);

  template <typename Request, typename Response>
  Result<Response> Call(Method<Request, Response> method, const Request& request,
                        Duration timeout) {
    grpc::ClientContext context;
    connection.Prepare(context, timeout);
    Response response;
    const grpc::Status status = ((*stub).*method)(&context, request, &response);
    if (!status.ok()) return ToError(status);
    return response;
  }

  const Client::Connection& connection;
  std::unique_ptr<v1::Admin::Stub> stub;
};

AdminClient::AdminClient(Client& client)
    : stub_(new Stub{.connection = *client.connection_,
                     .stub = v1::Admin::NewStub(client.connection_->channel)}) {}

AdminClient::~AdminClient() = default;

Result<v1::ExplainResponse> AdminClient::Explain(const v1::ExplainRequest& request,
                                                 Duration timeout) {
  return stub_->Call(&v1::Admin::Stub::Explain, request, timeout);
}

Result<v1::ResetLimitResponse> AdminClient::ResetLimit(const v1::ResetLimitRequest& request,
                                                       Duration timeout) {
  return stub_->Call(&v1::Admin::Stub::ResetLimit, request, timeout);
}

Result<v1::ListRulesResponse> AdminClient::ListRules(const v1::ListRulesRequest& request,
                                                     Duration timeout) {
  return stub_->Call(&v1::Admin::Stub::ListRules, request, timeout);
}

Result<v1::ReloadRulesResponse> AdminClient::ReloadRules(const v1::ReloadRulesRequest& request,
                                                         Duration timeout) {
  return stub_->Call(&v1::Admin::Stub::ReloadRules, request, timeout);
}

}  // namespace sluice
