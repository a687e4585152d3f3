// Classification of Redis' error replies.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/address.h"

namespace sluice::redis {

// The first word of an error, which names its kind, such as "OOM". Before version 7, Redis reports
// an error inside a script in one of two ways:
//   @user_script: 84: -OOM command not allowed …
//   ERR Error running script (call to f_…): @user_script:84: @user_script: 84: -OOM command …
// Returns NOPERM for every form of "the script may not call this command".
std::string_view WordOf(std::string_view error);

// A kind of error with its own metric label and log line. docs/redis.md has a row for each kind;
// redis_errors_test compares the rows with the behavior.
struct ErrorKind {
  std::string_view word;
  std::string_view advice;       // for the log: the meaning, and what to do
  std::string_view remedy = {};  // for the log: what happens to the checks, if they have not run
  bool wants_reconnect = false;  // see WantsReconnect
};
extern const std::array<ErrorKind, 18> kErrorKinds;

// The index of the error's kind in kErrorKinds; nullopt if the error has none of these kinds.
std::optional<std::size_t> KindOf(std::string_view error);

// Whether a new connection may help: the node is starting, requires a login, or has become a
// replica. In the last case, the node's name may now resolve to the new master.
bool WantsReconnect(std::string_view error);

// Whether keys are on another node: MOVED, ASK or TRYAGAIN. The command has not run.
bool IsRedirect(std::string_view error);

// The slot and the address in a MOVED or ASK, such as "MOVED 3999 127.0.0.1:6381".
struct Redirect {
  std::size_t slot = 0;
  Address address;
};

// If the host is empty, the target does not know its own name, and the result has the host of
// `from`. If the host is "?", the target has no name to announce, and the result is nullopt. The
// result is also nullopt if the error has no slot or no address.
std::optional<Redirect> ParseRedirect(std::string_view error, const Address& from);

// Whether `error` means that a script accessed a key that is neither declared nor on this node, or
// that the Cluster is down. In both cases, nothing was changed.
bool IsForeignKey(std::string_view error);

// Whether `error` means that the node rejects scripts that access undeclared keys. In this case,
// nothing was changed.
bool RefusesUndeclaredKeys(std::string_view error);

}  // namespace sluice::redis
