// Classification of Redis' error replies.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace sluice::redis {

// The first word of an error, which names its kind, such as "OOM". Before version 7, Redis reports
// an error inside a script in one of two ways:
//   @user_script: 84: -OOM command not allowed …
//   ERR Error running script (call to f_…): @user_script:84: @user_script: 84: -OOM command …
// NOPERM, too, whatever the words are for what a script may not call.
std::string_view WordOf(std::string_view error);

// An error that has a word of its own on the metrics page and a line of its own in the log.
// docs/redis.md has a row for each, which redis_errors_test holds against what happens.
struct ErrorKind {
  std::string_view word;
  std::string_view advice;       // for the log: what it means, what to do
  std::string_view remedy = {};  // for the log: what is done where nothing has run
  bool wants_reconnect = false;  // see WantsReconnect
};
extern const std::array<ErrorKind, 18> kErrorKinds;

// Its place in kErrorKinds; nothing for words of no kind.
std::optional<std::size_t> KindOf(std::string_view error);

// Whether connecting anew may cure it: the server is starting, or is a replica now and its name may
// lead to the new primary.
bool WantsReconnect(std::string_view error);

// Whether the keys are elsewhere: MOVED, ASK or TRYAGAIN. The command has not run.
bool IsRedirect(std::string_view error);

// Whether a script without declared keys accessed a key that is not on this node (or the cluster is
// down). Nothing was changed.
bool IsForeignKey(std::string_view error);

// Whether the server rejects scripts that access undeclared keys. Nothing was changed.
bool RefusesUndeclaredKeys(std::string_view error);

}  // namespace sluice::redis
