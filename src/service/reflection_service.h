// The standard reflection service, in both versions in use (grpc.reflection.v1 and v1alpha): tells
// tools the services of a server, and the descriptors compiled into this program.
#pragma once

#include "rpc/method.h"

namespace sluice {

// Adds ServerReflectionInfo in both versions. It lists the services of `methods` as it is then, and
// itself.
void AddReflection(rpc::Methods& methods);

}  // namespace sluice
