// One unary RPC after the other, its request and answer as bytes. Everything it needs but gRPC's
// own context is kept from RPC to RPC.
//
// The answer may come on any thread.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include "base/clock.h"
#include "base/result.h"
#include "service/queued_call.h"

namespace sluice {

class UnaryCall : public QueuedCall {
 protected:
  // How a service is asked for the next RPC of one kind.
  template <typename Service>
  using Request = void (Service::*)(grpc::ServerContext* context, grpc::ByteBuffer* request,
                                    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>*,
                                    grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                                    void* tag);

  // `service` must outlive the call.
  template <typename Service>
  UnaryCall(CallPool& pool, Service& service, Request<std::type_identity_t<Service>> request,
            Kind kind = Kind::kUnary)
      : QueuedCall(pool, kind),
        service_(service),
        request_(static_cast<Request<grpc::Service>>(request)) {}

  // The request as it came, until the RPC ends.
  std::string_view RequestBytes();

  // When the caller gives up.
  SteadyTime Deadline() const;

  static grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& response);

  // End the RPC, as EndOfRpc says.
  void Finish(const grpc::ByteBuffer& response);
  void Finish(const Error& error);

 private:
  void RequestNext(void* tag) final;
  void LetGo() final;

  grpc::Service& service_;
  const Request<grpc::Service> request_;  // a method of service_, whatever its class

  // Of one RPC.
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> responder_;
  grpc::ByteBuffer request_buffer_;
  grpc::Slice request_bytes_;  // what RequestBytes views
};

}  // namespace sluice
