#include "service/reflection_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpc/reflection/v1/reflection.pb.h>
#include <grpc/reflection/v1alpha/reflection.pb.h>

#include "api/protobuf_log.h"
#include "service/reflection_handler.h"
#include "service/service_names.h"

namespace sluice {
namespace {

template <typename Request>
std::string PathOfVersion() {
  return "/" + Request::descriptor()->file()->service(0)->full_name() + "/ServerReflectionInfo";
}

}  // namespace

void AddReflection(rpc::Methods& methods, AdmitCall admit) {
  SendProtobufLogToOurs();
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto make = [names, admit = std::move(admit)](net::Loop&) {
    return std::make_unique<ReflectionHandler>(names, admit);
  };
  methods.push_back({.path = PathOfVersion<grpc::reflection::v1::ServerReflectionRequest>(),
                     .stream = make,
                     .is_probe = true});
  methods.push_back({.path = PathOfVersion<grpc::reflection::v1alpha::ServerReflectionRequest>(),
                     .stream = make,
                     .is_probe = true});
  *names = ServiceNames(methods);
}

}  // namespace sluice
