// The standard reflection service, in both versions in use (grpc.reflection.v1 and v1alpha): lists
// the services of a server, and the descriptors compiled into this program.
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"
#include "rpc/method.h"

namespace sluice {

// If a caller has more than this many bytes of responses to read, its stream is not read.
inline constexpr std::size_t kMaxUnsentReflection = 64 * 1024;

// Adds ServerReflectionInfo in both versions. It lists the services in `methods` at this time, and
// itself. Answers the callers that `admit` accepts; if `admit` is empty, all callers.
using AdmitCall = std::function<Result<void>(const rpc::Call&)>;
void AddReflection(rpc::Methods& methods, AdmitCall admit = nullptr);

}  // namespace sluice
