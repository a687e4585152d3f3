// The services Health and Reflection without limits, each in gRPC's synchronous and callback API.
// Reflection answers each request of its stream with an empty response.
#pragma once

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

inline HealthCheckResponse Serving() {
  HealthCheckResponse response;
  response.set_status(HealthCheckResponse::SERVING);
  return response;
}

class Health final : public grpc::health::v1::Health::Service {
 public:
  grpc::Status Check(grpc::ServerContext*, const HealthCheckRequest*,
                     HealthCheckResponse* response) override {
    *response = Serving();
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext*, const HealthCheckRequest*,
                     grpc::ServerWriter<HealthCheckResponse>* writer) override {
    writer->Write(Serving());
    return grpc::Status::OK;
  }
};

class Reflection final : public grpc::reflection::v1::ServerReflection::Service {
 public:
  using Stream = grpc::ServerReaderWriter<ServerReflectionResponse, ServerReflectionRequest>;

  grpc::Status ServerReflectionInfo(grpc::ServerContext*, Stream* stream) override {
    ServerReflectionRequest request;
    while (stream->Read(&request)) stream->Write(ServerReflectionResponse());
    return grpc::Status::OK;
  }
};

class CallbackHealth final : public grpc::health::v1::Health::CallbackService {
 public:
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const HealthCheckRequest*,
                                  HealthCheckResponse* response) override {
    *response = Serving();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<HealthCheckResponse>* Watch(grpc::CallbackServerContext*,
                                                       const HealthCheckRequest*) override {
    class Reactor final : public grpc::ServerWriteReactor<HealthCheckResponse> {
     public:
      Reactor() { StartWriteAndFinish(&response_, {}, grpc::Status::OK); }
      void OnDone() override { delete this; }

     private:
      const HealthCheckResponse response_ = Serving();
    };
    return new Reactor;
  }
};

class CallbackReflection final : public grpc::reflection::v1::ServerReflection::CallbackService {
 public:
  using Reactor = grpc::ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse>;

  Reactor* ServerReflectionInfo(grpc::CallbackServerContext*) override {
    class Echo final : public Reactor {
     public:
      Echo() { StartRead(&request_); }
      void OnReadDone(bool ok) override {
        if (ok) {
          StartWrite(&response_);
        } else {
          Finish(grpc::Status::OK);
        }
      }
      void OnWriteDone(bool) override { StartRead(&request_); }
      void OnDone() override { delete this; }

     private:
      ServerReflectionRequest request_;
      const ServerReflectionResponse response_;
    };
    return new Echo;
  }
};
