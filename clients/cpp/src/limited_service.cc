#include "sluice/limited_service.h"

#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <grpcpp/alarm.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>

namespace sluice {
namespace {

using grpc::ByteBuffer;
using grpc::internal::MethodHandler;
using grpc::internal::RpcMethod;

// Returns the status of a denied call. If a retry can succeed, sets the trailer that says when.
grpc::Status Refusal(const Decision& decision, grpc::ServerContextBase& context) {
  if (!decision.error.ok()) return {grpc::StatusCode::INTERNAL, "no decision"};
  if (!decision.answered) return {grpc::StatusCode::UNAVAILABLE, "no decision"};
  if (decision.retry_after) {
    const auto pushback = std::chrono::ceil<std::chrono::milliseconds>(*decision.retry_after);
    context.AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(pushback.count()));
  }
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "rate limited"};
}

// Reports how a canceled call went: OVERLOAD if its deadline has passed, otherwise IGNORE, because
// the call then shows nothing about the load.
void ReportCanceled(const grpc::ServerContextBase& context, Work& work) {
  if (!context.IsCancelled()) return;
  const bool is_late = std::chrono::system_clock::now() >= context.deadline();
  work.Report(is_late ? v1::HOLD_OUTCOME_OVERLOAD : v1::HOLD_OUTCOME_IGNORE);
}

// Checks each call of a method before the method's own handler runs it. The request stays a raw
// buffer until that handler parses it, so the request of a denied call is never parsed.
class LimitedHandler : public MethodHandler {
 public:
  LimitedHandler(MethodHandler& method, std::string name, Client& client, std::string domain,
                 CallAttributes attributes)
      : method_(method),
        name_(std::move(name)),
        client_(client),
        domain_(std::move(domain)),
        attributes_(std::move(attributes)) {}

  void* Deserialize(grpc_call*, grpc_byte_buffer* request, grpc::Status*, void**) final {
    return request;
  }

 protected:
  // `done`: called when the call has ended (callback API).
  static void Run(MethodHandler& handler, const HandlerParameter& call,
                  std::function<void()> done) {
    grpc::Status status;
    void* data = nullptr;
    void* request = handler.Deserialize(
        call.call->call(), static_cast<grpc_byte_buffer*>(call.request), &status, &data);
    handler.RunHandler(
        HandlerParameter(call.call, call.server_context, request, status, data, std::move(done)));
  }

  Attributes AttributesOf(const grpc::ServerContextBase& context) const {
    Attributes attributes = attributes_ ? attributes_(context) : Attributes();
    attributes["endpoint"] = name_;
    return attributes;
  }

  MethodHandler& method_;
  const std::string name_;
  Client& client_;
  const std::string domain_;

 private:
  const CallAttributes attributes_;
};

class SyncHandler final : public LimitedHandler {
 public:
  using LimitedHandler::LimitedHandler;

  void RunHandler(const HandlerParameter& call) override {
    Permit permit = client_.Acquire(domain_, AttributesOf(*call.server_context));
    if (permit) {
      Run(method_, call, nullptr);
      return ReportCanceled(*call.server_context, permit.work());
    }
    grpc::internal::RpcMethodHandler<grpc::Service, ByteBuffer, ByteBuffer> refuse(
        [&](grpc::Service*, grpc::ServerContext* context, const ByteBuffer*, ByteBuffer*) {
          return Refusal(permit.decision(), *context);
        },
        nullptr);
    Run(refuse, call, nullptr);
  }
};

class CallbackHandler final : public LimitedHandler {
 public:
  using LimitedHandler::LimitedHandler;

  void RunHandler(const HandlerParameter& call) override {
    client_.CheckAsync(domain_, AttributesOf(*call.server_context),
                       [this, call](const Decision& decision) {
                         decision.allowed ? Admit(call, decision) : Refuse(call, decision);
                       });
  }

 private:
  void Admit(const HandlerParameter& call, const Decision& decision) {
    auto run = [this, call, lease = std::make_shared<Lease>(client_.Hold(decision))] {
      const auto* context = call.server_context;
      Run(method_, call, [lease, context, done = call.call_requester] {
        ReportCanceled(*context, *lease);
        *lease = Lease();
        done();
      });
    };
    if (decision.wait.count() == 0) return run();
    auto* alarm = new grpc::Alarm;
    alarm->Set(std::chrono::system_clock::now() + decision.wait, [alarm, run](bool) {
      run();
      delete alarm;
    });
  }

  static void Refuse(const HandlerParameter& call, const Decision& decision) {
    grpc::internal::CallbackUnaryHandler<ByteBuffer, ByteBuffer> refuse(
        [&](grpc::CallbackServerContext* context, const ByteBuffer*, ByteBuffer*) {
          auto* reactor = context->DefaultReactor();
          reactor->Finish(Refusal(decision, *context));
          return reactor;
        });
    Run(refuse, call, call.call_requester);
  }
};

RpcMethod::RpcType TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcMethod::BIDI_STREAMING : RpcMethod::CLIENT_STREAMING;
  }
  return method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC;
}

}  // namespace

LimitedService::LimitedService(grpc::Service& service, const std::string& full_name, Client& client,
                               const std::string& domain, CallAttributes attributes) {
  const auto* descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(full_name);
  if (descriptor == nullptr) throw std::invalid_argument("no service is named " + full_name);
  const bool callback = service.has_callback_methods();
  if (service.has_generic_methods() || service.has_async_methods() ||
      (callback && service.has_synchronous_methods())) {
    throw std::invalid_argument("the methods of " + full_name +
                                " are neither all synchronous nor all of the callback API");
  }
  methods_.reserve(descriptor->method_count());
  for (int i = 0; i < descriptor->method_count(); ++i) {
    methods_.push_back("/" + full_name + "/" + descriptor->method(i)->name());
    MethodHandler& method = *(service.*&LimitedService::GetHandler)(i);
    MethodHandler* handler;
    if (callback) {
      handler = new CallbackHandler(method, methods_[i], client, domain, attributes);
    } else {
      handler = new SyncHandler(method, methods_[i], client, domain, attributes);
    }
    auto* limited = new grpc::internal::RpcServiceMethod(methods_[i].c_str(),
                                                         TypeOf(*descriptor->method(i)), handler);
    if (callback) {
      limited->SetServerApiType(grpc::internal::RpcServiceMethod::ApiType::CALL_BACK);
    }
    AddMethod(limited);
  }
}

}  // namespace sluice
