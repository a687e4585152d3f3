// Shared by the operator RPCs: they check the caller's access, and use generated protobuf messages.
//
// Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <google/protobuf/message_lite.h>

#include "admin/admin_access.h"
#include "api/status.h"
#include "limiter/check_request.h"
#include "rpc/handler.h"

namespace sluice {

AdminAccess::Caller OperatorOf(const rpc::Call& call);

// The operator's name, if the caller has access. Logs a refusal at debug level.
Result<std::string_view> AdmitOperator(const AdminAccess& access, const rpc::Call& call);

template <typename Request>
class AdminHandler : public rpc::UnaryHandler {
 public:
  // `access` must outlive the handler.
  explicit AdminHandler(const AdminAccess& access) : access_(access) {}

  void Serve(const rpc::Call& call, std::string_view bytes) final {
    const auto admitted = AdmitOperator(access_, call);
    if (!admitted) return Fail(admitted.error());
    operator_ = fmt::format("{} at {}", *admitted, call.peer().address);
    if (!message_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return Fail(InvalidArgument("the request is not a valid protobuf message"));
    }
    Answer(call);
  }

 protected:
  void Fail(const Error& error) { Finish(ToStatus(error)); }
  void FinishWith(const google::protobuf::MessageLite& response) {
    Finish(response.SerializeAsString());
  }

  // The caller, for the log: "the admin token at 192.0.2.1:4711".
  const std::string& caller() const { return operator_; }

  // Valid until Finish or the next Serve.
  const Request& message() const { return message_; }

 private:
  // Must end the call eventually. `call` is valid as in Serve.
  virtual void Answer(const rpc::Call& call) = 0;

  const AdminAccess& access_;
  std::string operator_;
  Request message_;
};

// A check of the domain and attributes of `request`, with views into it.
template <typename Request>
CheckRequest ToCheckRequest(const Request& request, SteadyTime deadline) {
  CheckRequest check;
  check.domain = request.domain();
  for (const auto& [name, value] : request.attributes()) check.attributes.push_back({name, value});
  check.deadline = deadline;
  return check;
}

}  // namespace sluice
