#include "http/json_handler.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace sluice {
namespace {

namespace protobuf = google::protobuf;

constexpr const char* kTypePrefix = "type.googleapis.com";
constexpr const char* kJson = "application/json";

// The maximum size of a serialized response whose JSON is written at once. Writing the JSON of a
// larger response is a long task.
constexpr std::size_t kSmallAnswer = 1024;

protobuf::util::TypeResolver* Types() {
  static const std::unique_ptr<protobuf::util::TypeResolver> types(
      protobuf::util::NewTypeResolverForDescriptorPool(kTypePrefix,
                                                       protobuf::DescriptorPool::generated_pool()));
  return types.get();
}

std::string TypeUrl(const protobuf::Descriptor& type) {
  return fmt::format("{}/{}", kTypePrefix, type.full_name());
}

// Finds "sluice.v1.RateLimiter.CheckLimit" for "/sluice.v1.RateLimiter/CheckLimit".
const protobuf::MethodDescriptor& Describe(const std::string& path) {
  std::string name = path.substr(1);
  std::ranges::replace(name, '/', '.');
  return *protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
}

HttpResponse Render(const std::string& type, const rpc::Status& status, std::string_view response) {
  if (!status.ok()) return ErrorResponse(status);
  HttpResponse rendered{.content_type = kJson, .body = {}};
  const auto written =
      protobuf::util::BinaryToJsonString(Types(), type, std::string(response), &rendered.body);
  if (!written.ok()) {
    return ErrorResponse({.code = rpc::StatusCode::kInternal, .message = written.ToString()});
  }
  rendered.body += '\n';
  return rendered;
}

}  // namespace

HttpResponse ErrorResponse(const rpc::Status& status) {
  HttpResponse response{
      .status = HttpStatusOf(status.code),
      .content_type = kJson,
      .body = fmt::format("{{\"code\":{},\"message\":{}}}\n", static_cast<int>(status.code),
                          JsonString(status.message))};
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpRoute JsonRoute(std::string path, UnaryCalls& calls, StatusOfCall status_of) {
  const auto& method = Describe(calls.method().path);
  auto answer = [status_of, answered = TypeUrl(*method.output_type())](
                    const rpc::Status& status, std::string_view response,
                    const HttpResponder& respond) {
    HttpResponse rendered = Render(answered, status, response);
    if (status_of != nullptr) rendered.status = status_of(status, response);
    respond(rendered);
  };
  auto answer_in_turn = [answer](const rpc::Status& status, std::string_view response,
                                 const HttpResponder& respond) {
    if (response.size() <= kSmallAnswer) return answer(status, response, respond);
    net::Loop::Current()->PostLong(
        net::LongWork::kJson,
        [answer, status, copy = std::string(response), respond] { answer(status, copy, respond); });
  };
  auto handle = [&calls, answer_in_turn, asked = TypeUrl(*method.input_type())](
                    const HttpRequest& request, HttpResponder responder) {
    std::string message;
    const auto read = protobuf::util::JsonToBinaryString(Types(), asked, request.body, &message);
    if (!read.ok()) {
      return responder(
          ErrorResponse({.code = rpc::StatusCode::kInvalidArgument,
                         .message = fmt::format("body: {}", std::string(read.message()))}));
    }
    calls.Start(request, std::move(message), answer_in_turn, std::move(responder));
  };
  return {.path = std::move(path),
          .handler = std::move(handle),
          .methods = {"POST"},
          .own_site_only = true};
}

HttpRoute JsonPage(std::string path, UnaryCalls& calls, Worker& worker) {
  auto render = [&worker, answered = TypeUrl(*Describe(calls.method().path).output_type())](
                    const rpc::Status& status, std::string_view response,
                    const HttpResponder& respond) {
    static_cast<void>(worker.Post([answered, status, copy = std::string(response), respond] {
      respond(Render(answered, status, copy));
    }));
  };
  auto handle = [&calls, render](const HttpRequest& request, HttpResponder responder) {
    calls.Start(request, {}, render, std::move(responder));
  };
  return {.path = std::move(path), .handler = std::move(handle)};
}

int HttpStatusOf(rpc::StatusCode code) {
  using enum rpc::StatusCode;
  using Pair = std::pair<rpc::StatusCode, int>;
  static constexpr Pair kStatuses[] = {{kOk, 200},
                                       {kInvalidArgument, 400},
                                       {kUnauthenticated, 401},
                                       {kPermissionDenied, 403},
                                       {kNotFound, 404},
                                       {kResourceExhausted, 429},
                                       {kUnavailable, 503}};
  const auto* const found = std::ranges::find(kStatuses, code, &Pair::first);
  return found == std::end(kStatuses) ? 500 : found->second;
}

}  // namespace sluice
