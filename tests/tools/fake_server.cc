#include "tests/tools/fake_server.h"

#include <utility>

#include <grpcpp/server_builder.h>

namespace sluice::test {

FakeServer::FakeServer(Answer answer) : answer_(std::move(answer)) {
  address_.unix_path = dir_.path() / "grpc.sock";
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_.ToString(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() { server_->Shutdown(); }

grpc::Status FakeServer::CheckLimit(grpc::ServerContext*, const v1::CheckLimitRequest* request,
                                    v1::CheckLimitResponse* response) {
  return answer_(*request, *response);
}

}  // namespace sluice::test
