#include "store/redis/redis_error.h"

namespace sluice::redis {

std::string_view WordOf(std::string_view error) {
  const bool from_script = error.starts_with('@') || error.starts_with("ERR Error running script");
  const std::size_t place_end = from_script ? error.find(": -") : error.npos;
  if (place_end != error.npos) error.remove_prefix(place_end + 3);
  return error.substr(0, error.find(' '));
}

bool WantsReconnect(std::string_view error) {
  const std::string_view word = WordOf(error);
  return word == "LOADING" || word == "READONLY" || word == "NOAUTH";
}

bool IsRedirect(std::string_view error) {
  const std::string_view word = WordOf(error);
  return word == "MOVED" || word == "ASK" || word == "TRYAGAIN";
}

// "ERR Script attempted to access a non local key in a cluster node"; before Redis 7 "Lua script".
bool IsForeignKey(std::string_view error) {
  return error.find("cript attempted to ") != std::string_view::npos;
}

bool RefusesUndeclaredKeys(std::string_view error) {
  return error.find("undeclared key") != std::string_view::npos;
}

}  // namespace sluice::redis
