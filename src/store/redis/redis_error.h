// The errors Redis answers with.
#pragma once

#include <string_view>

namespace sluice::redis {

// The word that begins an error and names its kind, such as "OOM", wherever the error comes from.
// What a command inside a script fails with, Redis before version 7 words in one of two ways:
//   @user_script: 84: -OOM command not allowed …
//   ERR Error running script (call to f_…): @user_script:84: @user_script: 84: -OOM command …
std::string_view WordOf(std::string_view error);

// Whether connecting anew may cure it: the server is starting, or is a replica now and its name may
// lead to the new primary.
bool WantsReconnect(std::string_view error);

// Whether the keys are not here: MOVED, ASK or TRYAGAIN, of a command that has not run.
bool IsRedirect(std::string_view error);

// Whether a script that has not declared its keys met one that is not here (or not for now, as the
// cluster is down). Nothing was done with it.
bool IsForeignKey(std::string_view error);

// Whether the server lets no script touch keys that it has not declared. Nothing was done.
bool RefusesUndeclaredKeys(std::string_view error);

}  // namespace sluice::redis
