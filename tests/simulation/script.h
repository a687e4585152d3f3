// The check script as C++: decodes the calls of store/redis and decides them with the algorithms of
// core, so that a simulation runs without a Lua interpreter. The twin of scripts/lua/decide.lua;
// the differential test compares the algorithms.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/counter.h"

namespace sluice::simulation {

class Script {
 public:
  // Only these limits can be decoded.
  explicit Script(std::span<const Limit> limits);

  struct Counter {
    Limit limit;
    CounterState state;
  };
  using Counters = std::map<std::string, Counter, std::less<>>;

  // Whether a key that the call has not declared may be read here.
  using MayRead = std::function<bool(std::string_view key)>;

  // Runs a call: keys and arguments as of EVALSHA, after the number of keys. Returns the reply.
  std::vector<std::string> Run(std::span<const std::string> keys,
                               std::span<const std::string> arguments, Time now, Counters& counters,
                               const MayRead& may_read) const;

  // As replicated: shares nothing with `counters`.
  static Counters Copy(const Counters& counters);

 private:
  std::map<std::vector<double>, Limit> limits_;  // by number and parameters, as calls name them
};

}  // namespace sluice::simulation
