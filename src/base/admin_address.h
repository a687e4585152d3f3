// Where operators find a server of their own machine: a unix socket whose path follows from the
// server's gRPC address. One convention, for the server that listens and for the tool that
// connects.
//
//   unix:PATH   unix:PATH.admin
//   host:port   unix:DIRECTORY/sluiced-<port>.admin
//
// DIRECTORY is $XDG_RUNTIME_DIR/sluice if that variable is set, else /run/sluice for root and
// /tmp/sluice-<uid> for others: each user has one, which is closed to the others.
//
// Thread-safe.
#pragma once

#include "base/address.h"
#include "base/result.h"

namespace sluice {

// The operators' address of the server at `grpc`. Fails if the path is too long for a socket.
// REQUIRES: `grpc` is a unix socket, or its port is not 0.
Result<Address> AdminAddressOf(const Address& grpc);

// For the server, before it listens there: makes DIRECTORY, for this user alone, unless it is
// there. Fails as CheckAdminDirectory. Nothing is done if `grpc` is a unix socket.
Result<void> MakeAdminDirectory(const Address& grpc);

// For the tool, before it connects: fails with kPermissionDenied if DIRECTORY is there and is not
// this user's alone; then somebody else could answer. A unix socket's place is the user's choice.
Result<void> CheckAdminDirectory(const Address& grpc);

}  // namespace sluice
