// The Lua script that decides checks, composed from scripts/lua at build time.
#pragma once

#include <span>
#include <string_view>

namespace sluice::redis {

struct Script {
  std::string_view text;
  std::string_view sha1;  // of the text, in hexadecimal, for EVALSHA
  // The algorithms, which are the files of scripts/lua/algorithm. The script's arguments identify
  // an algorithm by its position here, from 1.
  std::span<const std::string_view> algorithms;
};

extern const Script kCheckScript;

}  // namespace sluice::redis
