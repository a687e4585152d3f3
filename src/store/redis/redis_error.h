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

// The index of the error's kind in kErrorKinds, or nullopt if it has none.
std::optional<std::size_t> KindOf(std::string_view error);

// Whether a new connection may help: the node is starting, requires a login, or has become a
// replica. In the last case, the node's name may now resolve to the new master.
bool WantsReconnect(std::string_view error);

// Whether keys are on another node: MOVED, ASK or TRYAGAIN. The command has not run.
bool IsRedirect(std::string_view error);

// The place that a MOVED or ASK names: "MOVED 3999 127.0.0.1:6381".
struct Redirect {
  std::size_t slot = 0;
  Address address;
};

// If the error has no host, because the target does not know its own name, the result has the host
// of `from`. Returns nullopt if the error names no place, or has "?" as the host, because the
// target has no name to announce.
std::optional<Redirect> ParseRedirect(std::string_view error, const Address& from);

// Whether a script has failed because it accessed a key that is neither declared nor on this node,
// or because the Cluster is down. Nothing was changed.
bool IsForeignKey(std::string_view error);

// Whether the node rejects scripts that access undeclared keys. Nothing was changed.
bool RefusesUndeclaredKeys(std::string_view error);

}  // namespace sluice::redis
