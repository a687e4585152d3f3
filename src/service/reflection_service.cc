#include "service/reflection_service.h"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <grpc/reflection/v1alpha/reflection.pb.h>

#include "api/received_message.h"

namespace sluice {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1::ExtensionRequest;
using Request = grpc::reflection::v1::ServerReflectionRequest;
using Response = grpc::reflection::v1::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetError(rpc::StatusCode code, std::string message, Response& response) {
  response.mutable_error_response()->set_error_code(static_cast<int>(code));
  response.mutable_error_response()->set_error_message(std::move(message));
}

const FileDescriptor* FileOfExtension(const ExtensionRequest& request) {
  const Descriptor* type = Pool().FindMessageTypeByName(request.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* extension = Pool().FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void AnswerWithExtensionNumbers(const std::string& name, Response& response) {
  const Descriptor* type = Pool().FindMessageTypeByName(name);
  if (type == nullptr) {
    return SetError(rpc::StatusCode::kNotFound,
                    "all_extension_numbers_of_type: unknown on this server", response);
  }
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* it : extensions) numbers.add_extension_number(it->number());
}

// ServerReflectionInfo: answers each request when it arrives, in order. Both versions have the same
// wire format, so one handler serves them. Flow control stops a caller that does not read its
// responses.
class ReflectionHandler final : public rpc::StreamHandler {
 public:
  // `services`: full names of the server's services.
  ReflectionHandler(std::shared_ptr<const std::vector<std::string>> services, AdmitCall admit)
      : services_(std::move(services)), admit_(std::move(admit)) {}

  void OnStart(const rpc::Call& call) override {
    reading_ = true;
    sent_.clear();
    if (!admit_) return;
    if (const auto admitted = admit_(call); !admitted) Finish(ToStatus(admitted.error()));
  }

  void OnMessage(std::string_view message) override {
    Request request;
    if (!ParseMessage(message, request)) {
      return Finish({rpc::StatusCode::kInvalidArgument, "expects ServerReflectionRequests"});
    }
    Response response;
    response.set_valid_host(request.host());
    Answer(request, response);
    *response.mutable_original_request() = std::move(request);
    Send(response.SerializeAsString());
    if (unsent_bytes() > kMaxUnsentReflection && std::exchange(reading_, false)) SetReading(false);
  }

  void OnHalfClose() override { Finish({}); }

  void OnWritable() override {
    if (!std::exchange(reading_, true)) SetReading(true);
  }

  void OnDrain() override {
    Finish({rpc::StatusCode::kUnavailable, "this server is shutting down"});
  }

  void OnCancel() override { Finish({.code = rpc::StatusCode::kCancelled}); }

 private:
  void Answer(const Request& request, Response& response) {
    switch (request.message_request_case()) {
      case Request::kFileByFilename:
        return AnswerWithFile(Pool().FindFileByName(request.file_by_filename()), response);
      case Request::kFileContainingSymbol:
        return AnswerWithFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                              response);
      case Request::kFileContainingExtension:
        return AnswerWithFile(FileOfExtension(request.file_containing_extension()), response);
      case Request::kAllExtensionNumbersOfType:
        return AnswerWithExtensionNumbers(request.all_extension_numbers_of_type(), response);
      case Request::kListServices:
        for (const std::string& name : *services_) {
          response.mutable_list_services_response()->add_service()->set_name(name);
        }
        return;
      case Request::MESSAGE_REQUEST_NOT_SET:
        break;
    }
    SetError(rpc::StatusCode::kInvalidArgument,
             "message_request: is not set, or unknown on this server", response);
  }

  // The requested file is always sent. An imported file is sent only if the stream has not sent it.
  void AnswerWithFile(const FileDescriptor* file, Response& response) {
    if (file == nullptr) {
      return SetError(rpc::StatusCode::kNotFound, "file: unknown on this server", response);
    }
    sent_.erase(file);
    AddFile(*file, response);
  }

  void AddFile(const FileDescriptor& file, Response& response) {
    if (!sent_.insert(&file).second) return;
    FileDescriptorProto descriptor;
    file.CopyTo(&descriptor);
    descriptor.SerializeToString(
        response.mutable_file_descriptor_response()->add_file_descriptor_proto());
    for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), response);
  }

  const std::shared_ptr<const std::vector<std::string>> services_;
  const AdmitCall admit_;

  // State of the current call.
  bool reading_ = true;
  std::unordered_set<const FileDescriptor*> sent_;
};

template <typename VersionedRequest>
std::string PathOfVersion() {
  const auto& service = *VersionedRequest::descriptor()->file()->service(0);
  return "/" + service.full_name() + "/ServerReflectionInfo";
}

}  // namespace

void AddReflection(rpc::Methods& methods, AdmitCall admit) {
  SendProtobufLogToOurs();
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto make = [names, admit = std::move(admit)](net::Loop&) {
    return std::make_unique<ReflectionHandler>(names, admit);
  };
  for (const std::string& path :
       {PathOfVersion<Request>(),
        PathOfVersion<grpc::reflection::v1alpha::ServerReflectionRequest>()}) {
    methods.push_back({.path = path, .stream = make, .is_probe = true});
  }
  *names = rpc::ServiceNames(methods);
}

}  // namespace sluice
