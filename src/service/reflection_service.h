// The standard reflection service, in both versions in use (grpc.reflection.v1 and v1alpha): lists
// the services of a server, and returns descriptors that are compiled into this program.
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"
#include "rpc/method.h"

namespace sluice {

// If a stream has more unsent bytes of responses than this, it is not read until they are sent.
inline constexpr std::size_t kMaxUnsentReflection = 64 * 1024;

// Adds ServerReflectionInfo in both versions. It lists the services in `methods` at this time, and
// itself. It answers only callers that `admit` accepts, or all callers if `admit` is empty.
using AdmitCall = std::function<Result<void>(const rpc::Call&)>;
void AddReflection(rpc::Methods& methods, AdmitCall admit = nullptr);

}  // namespace sluice
