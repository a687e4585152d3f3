// The Lua script that decides checks, composed from scripts/lua at build time.
#pragma once

#include <span>
#include <string_view>

namespace sluice::redis {

struct Script {
  std::string_view text;
  std::string_view sha1;  // of the text, in hexadecimal, for EVALSHA
  // The algorithms, which the script's arguments identify by number, from 1: the files of
  // scripts/lua/algorithm.
  std::span<const std::string_view> algorithms;
};

extern const Script kCheckScript;

}  // namespace sluice::redis
