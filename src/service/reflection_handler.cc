#include "service/reflection_handler.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>

#include "api/status.h"

namespace sluice {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1::ExtensionRequest;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetNotFound(std::string_view what, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(static_cast<int>(rpc::StatusCode::kNotFound));
  response.mutable_error_response()->set_error_message(std::string(what) + ": not known here");
}

const FileDescriptor* FileOfExtension(const ExtensionRequest& request) {
  const Descriptor* type = Pool().FindMessageTypeByName(request.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* extension = Pool().FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void AnswerWithExtensionNumbers(const std::string& name, ServerReflectionResponse& response) {
  const Descriptor* type = Pool().FindMessageTypeByName(name);
  if (type == nullptr) return SetNotFound("all_extension_numbers_of_type", response);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* it : extensions) numbers.add_extension_number(it->number());
}

}  // namespace

void ReflectionHandler::OnStart(const rpc::Call& call) {
  reading_ = true;
  sent_.clear();
  if (!admit_) return;
  if (const auto admitted = admit_(call); !admitted) Finish(ToStatus(admitted.error()));
}

void ReflectionHandler::OnMessage(std::string_view message) {
  Request request;
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Finish({rpc::StatusCode::kInvalidArgument, "expects ServerReflectionRequests"});
  }
  Response response;
  response.set_valid_host(request.host());
  Answer(request, response);
  *response.mutable_original_request() = std::move(request);
  Send(response.SerializeAsString());
  if (unsent_bytes() > kMaxUnsentBytes && std::exchange(reading_, false)) SetReading(false);
}

void ReflectionHandler::OnHalfClose() { Finish({}); }

void ReflectionHandler::OnWritable() {
  if (!std::exchange(reading_, true)) SetReading(true);
}

void ReflectionHandler::OnDrain() {
  Finish({rpc::StatusCode::kUnavailable, "this server is shutting down"});
}

void ReflectionHandler::OnCancel() { Finish({.code = rpc::StatusCode::kCancelled}); }

void ReflectionHandler::Answer(const Request& request, Response& response) {
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
  auto& error = *response.mutable_error_response();
  error.set_error_code(static_cast<int>(rpc::StatusCode::kInvalidArgument));
  error.set_error_message("message_request: is not set, or not known here");
}

// The requested file is always sent; its imports only once per stream.
void ReflectionHandler::AnswerWithFile(const FileDescriptor* file, Response& response) {
  if (file == nullptr) return SetNotFound("file", response);
  sent_.erase(file);
  AddFile(*file, *response.mutable_file_descriptor_response());
}

void ReflectionHandler::AddFile(const FileDescriptor& file,
                                grpc::reflection::v1::FileDescriptorResponse& response) {
  if (!sent_.insert(&file).second) return;
  FileDescriptorProto descriptor;
  file.CopyTo(&descriptor);
  descriptor.SerializeToString(response.add_file_descriptor_proto());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), response);
}

}  // namespace sluice
