#include "tests/tools/fake_server.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <grpcpp/server_builder.h>

namespace sluice::testing {

FakeServer::FakeServer(Answer answer) : answer_(std::move(answer)) {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-fake-XXXXXX").string();
  directory_ = mkdtemp(name.data());
  address_.unix_path = (directory_ / "socket").string();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_.ToString(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  server_->Shutdown();
  std::filesystem::remove_all(directory_);
}

grpc::Status FakeServer::CheckLimit(grpc::ServerContext*, const v1::CheckLimitRequest* request,
                                    v1::CheckLimitResponse* response) {
  return answer_(*request, *response);
}

}  // namespace sluice::testing
