// ServerReflectionInfo: answers each request when it arrives, in order. Both versions have the same
// wire format, so one handler serves them.
//
// Loop thread only. Flow control stops a caller that does not read its responses.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rpc/handler.h"
#include "service/reflection_service.h"

namespace google::protobuf {
class FileDescriptor;
}

namespace grpc::reflection::v1 {
class FileDescriptorResponse;
class ServerReflectionRequest;
class ServerReflectionResponse;
}  // namespace grpc::reflection::v1

namespace sluice {

class ReflectionHandler final : public rpc::StreamHandler {
 public:
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  using Response = grpc::reflection::v1::ServerReflectionResponse;

  // Beyond this, no request is read.
  static constexpr std::size_t kMaxUnsentBytes = 64 * 1024;

  // `services`: full names of the server's services.
  ReflectionHandler(std::shared_ptr<const std::vector<std::string>> services, AdmitCall admit)
      : services_(std::move(services)), admit_(std::move(admit)) {}

  void OnStart(const rpc::Call& call) override;
  void OnMessage(std::string_view message) override;
  void OnHalfClose() override;
  void OnWritable() override;
  void OnDrain() override;
  void OnCancel() override;

 private:
  void Answer(const Request& request, Response& response);
  void AnswerWithFile(const google::protobuf::FileDescriptor* file, Response& response);
  void AddFile(const google::protobuf::FileDescriptor& file,
               grpc::reflection::v1::FileDescriptorResponse& response);

  const std::shared_ptr<const std::vector<std::string>> services_;
  const AdmitCall admit_;

  // State of the current call.
  bool reading_ = true;
  std::unordered_set<const google::protobuf::FileDescriptor*> sent_;
};

}  // namespace sluice
