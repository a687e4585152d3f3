#include "tests/tools/fake_server.h"

#include <utility>

#include <grpcpp/server_builder.h>

namespace sluice::test {

FakeServer::FakeServer(Answer answer, Leases leases)
    : answer_(std::move(answer)), leases_(std::move(leases)) {
  address_.unix_path = dir_.path() / "grpc.sock";
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_.ToString(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() { server_->Shutdown(); }

grpc::Status FakeServer::CheckLimit(grpc::ServerContext* context,
                                    const v1::CheckLimitRequest* request,
                                    v1::CheckLimitResponse* response) {
  {
    const auto header = context->client_metadata().find("authorization");
    const MutexLock lock(mutex_);
    if (header != context->client_metadata().end()) {
      authorization_.assign(header->second.data(), header->second.size());
    }
  }
  return answer_(*request, *response);
}

grpc::Status FakeServer::RenewLease(grpc::ServerContext*, const v1::RenewLeaseRequest* request,
                                    v1::RenewLeaseResponse* response) {
  if (!leases_.renew) return {grpc::NOT_FOUND, "no such lease"};
  return leases_.renew(*request, *response);
}

grpc::Status FakeServer::ReleaseLease(grpc::ServerContext*, const v1::ReleaseLeaseRequest* request,
                                      v1::ReleaseLeaseResponse*) {
  return leases_.release ? leases_.release(*request) : grpc::Status::OK;
}

}  // namespace sluice::test
