// Tests of health, reflection and connections.
#include "tests/clients/cpp/client.h"

#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection/v1alpha/reflection.grpc.pb.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace sluice {

using namespace std::chrono_literals;
using grpc::health::v1::HealthCheckRequest;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

void Client::HealthCheck() {
  HealthCheckRequest request;
  HealthCheckResponse answer;
  for (const std::string service : {"", "sluice.v1.RateLimiter"}) {
    Context context;
    request.set_service(service);
    ExpectOk(health_.Check(&context, request, &answer));
    Expect(answer.status() == HealthCheckResponse::SERVING, answer.ShortDebugString());
  }
  Context context;
  request.set_service("no.such");
  ExpectCode(grpc::StatusCode::NOT_FOUND, health_.Check(&context, request, &answer));
}

void Client::HealthWatch() {
  ExpectHealth("", HealthCheckResponse::SERVING);
  ExpectHealth("no.such", HealthCheckResponse::SERVICE_UNKNOWN);
}

void Client::ExpectHealth(const std::string& service, HealthCheckResponse::ServingStatus wanted) {
  Context context;
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse answer;
  const auto watch = health_.Watch(&context, request);
  Expect(watch->Read(&answer), "Watch has ended");
  Expect(answer.status() == wanted, answer.ShortDebugString());
  context.TryCancel();
  Expect(!watch->Read(&answer), "Watch does not end");
  ExpectCode(grpc::StatusCode::CANCELLED, watch->Finish());
}

void Client::Reflection() {
  Context context;
  grpc::reflection::v1alpha::ServerReflection::Stub stub(channel_);
  const auto calls = stub.ServerReflectionInfo(&context);
  const auto ask = [&](const ServerReflectionRequest& request) {
    ServerReflectionResponse answer;
    Expect(calls->Write(request) && calls->Read(&answer), "no answer");
    return answer;
  };
  ServerReflectionRequest request;
  request.set_list_services("*");
  std::set<std::string> names;
  const auto services = ask(request);
  for (const auto& service : services.list_services_response().service()) {
    names.insert(service.name());
  }
  for (const auto* name : {"sluice.v1.RateLimiter", "sluice.v1.Admin", "grpc.health.v1.Health"}) {
    Expect(names.count(name) > 0, fmt::format("{} is not among {}", name, names));
  }
  request.set_file_containing_symbol("sluice.v1.RateLimiter");
  Strings files;
  const auto found = ask(request);
  for (const auto& bytes : found.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    Expect(file.ParseFromString(bytes), "not a FileDescriptorProto");
    files.push_back(file.name());
  }
  Expect(std::count(files.begin(), files.end(), "sluice/v1/rate_limiter.proto") == 1,
         fmt::format("files: {}", files));
  request.set_file_containing_symbol("no.such.Symbol");
  const auto unknown = ask(request);
  Expect(unknown.error_response().error_code() == grpc::StatusCode::NOT_FOUND,
         unknown.ShortDebugString());
  calls->WritesDone();
  ExpectOk(calls->Finish());
}

void Client::Keepalive() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const Channel idle = Connect(flags_.at("address"), arguments);
  v1::RateLimiter::Stub busy(Connect(flags_.at("address"), arguments));
  Context context;
  v1::CheckLimitResponse answer;
  ExpectOk(v1::RateLimiter::Stub(idle).CheckLimit(&context, Check("keepalive"), &answer));
  Stream calls(busy, 60s);
  calls.Send(Checks(1, "keepalive"));
  calls.Results(1);
  Expect(idle->GetState(false) == GRPC_CHANNEL_READY, "the idle connection is not ready");
  const auto end = std::chrono::system_clock::now() + 35s;
  Expect(!idle->WaitForStateChange(GRPC_CHANNEL_READY, end), "the idle connection was lost");
  calls.Send(Checks(1, "keepalive"));
  calls.HalfClose();
  calls.Results(1);
  calls.ExpectEnd(grpc::StatusCode::OK);
}

void Client::Reconnect() {
  Stream calls(limiter_);
  calls.Send(Checks(1, "reconnect"));
  calls.Results(1);
  Ask("@kill");
  calls.ExpectEnd(grpc::StatusCode::UNAVAILABLE);
  ExpectChannelWorks("reconnect");
}

void Client::GracefulStop() {
  Context context;
  const auto watch = health_.Watch(&context, {});
  HealthCheckResponse health;
  Expect(watch->Read(&health), "Watch has ended");
  Expect(health.status() == HealthCheckResponse::SERVING, health.ShortDebugString());
  Stream calls(limiter_);
  calls.Send(Checks(1, "graceful"));
  calls.Results(1);
  Ask("@stop");
  Expect(watch->Read(&health), "Watch has ended");
  Expect(health.status() == HealthCheckResponse::NOT_SERVING, health.ShortDebugString());
  context.TryCancel();
  calls.ExpectEnd(grpc::StatusCode::UNAVAILABLE);
  ExpectChannelWorks("graceful");
}

}  // namespace sluice
