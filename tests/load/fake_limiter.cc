#include "tests/load/fake_limiter.h"

#include <utility>

#include <grpcpp/server_builder.h>

namespace sluice::test {
namespace {

const grpc::Status kUnimplemented(grpc::UNIMPLEMENTED, "not of this test");

}  // namespace

FakeLimiter::FakeLimiter(Answers answers) : answers_(std::move(answers)) {
  address_.unix_path = dir_.path() / "grpc.sock";
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_.ToString(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  if (answers_.max_streams > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, answers_.max_streams);
  }
  server_ = builder.BuildAndStart();
}

FakeLimiter::~FakeLimiter() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::Status FakeLimiter::CheckLimit(grpc::ServerContext*, const v1::CheckLimitRequest* request,
                                     v1::CheckLimitResponse* response) {
  return answers_.check ? answers_.check(*request, *response) : kUnimplemented;
}

grpc::Status FakeLimiter::CheckLimits(grpc::ServerContext*, const v1::CheckLimitsRequest* request,
                                      v1::CheckLimitsResponse* response) {
  return answers_.checks ? answers_.checks(*request, *response) : kUnimplemented;
}

grpc::Status FakeLimiter::CheckLimitStream(grpc::ServerContext*, Stream* stream) {
  return answers_.stream ? answers_.stream(*stream) : kUnimplemented;
}

}  // namespace sluice::test
