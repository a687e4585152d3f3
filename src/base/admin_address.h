// The address of a server's admin socket: a unix socket whose path is derived from the server's
// gRPC address. The server listens on it and the command-line tool connects to it.
//
//   unix:PATH   unix:PATH.admin
//   host:port   unix:DIRECTORY/sluiced-<port>.admin, or sluiced-<host>-<port>.admin if the host is
//               an address of 127.0.0.0/8 other than 127.0.0.1
//
// DIRECTORY is $XDG_RUNTIME_DIR/sluice if that variable is set, else /run/sluice for root and
// /tmp/sluice-<uid> for other users. Each user has a directory that other users cannot access.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace sluice {

// The paths of the admin sockets on which a process listens, sorted. Searches DIRECTORY and
// /run/sluice (the directory of the systemd service).
std::vector<std::string> FindAdminSockets();

// The admin address of the server at `grpc`. Fails if the path is too long for a socket.
// REQUIRES: `grpc` is a unix socket, or its port is not 0.
Result<Address> AdminAddressOf(const Address& grpc);

// Creates DIRECTORY with access for this user only. The server calls this before it listens. Fails
// if DIRECTORY cannot be created, or if CheckAdminDirectory fails. Does nothing if `grpc` is a unix
// socket.
Result<void> MakeAdminDirectory(const Address& grpc);

// If DIRECTORY exists, but is not a directory that only this user can access, fails with
// kPermissionDenied: another user's process could listen there. The tool calls this before it
// connects. Does nothing if `grpc` is a unix socket.
Result<void> CheckAdminDirectory(const Address& grpc);

}  // namespace sluice
