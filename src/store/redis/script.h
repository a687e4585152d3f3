// The Lua script that decides checks, composed from scripts/lua when Sluice is built.
#pragma once

#include <string_view>

namespace sluice::redis {

struct Script {
  std::string_view text;
  std::string_view sha1;  // of the text, in hexadecimal, as EVALSHA wants it
};

extern const Script kCheckScript;

}  // namespace sluice::redis
