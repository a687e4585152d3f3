#include "store/redis/redis_error.h"

#include <algorithm>
#include <charconv>

#include "store/redis/slot.h"

namespace sluice::redis {

constexpr std::array<ErrorKind, 18> kErrorKinds{{
    {.word = "NOSCRIPT",
     .advice = "a client flushes the scripts (SCRIPT FLUSH)",
     .remedy = "the script was flushed: it is loaded again, then the checks are sent again"},
    {.word = "MOVED",
     .advice = "it is a cluster node: redis.url must begin with redis+cluster",
     .remedy = "the checks are sent to that node, and the slot map is read again"},
    {.word = "ASK",
     .advice = "it is a cluster node: redis.url must begin with redis+cluster",
     .remedy = "the slot is moving to that node, so the checks are sent there"},
    {.word = "TRYAGAIN",
     .advice = "it is a cluster node: redis.url must begin with redis+cluster",
     .remedy = "some keys have not moved yet, so the checks are sent again"},
    {.word = "CLUSTERDOWN", .advice = "slots have no master: see CLUSTER INFO and CLUSTER NODES"},
    {.word = "LOADING",
     .advice = "it is reading its data, and answers checks afterward",
     .wants_reconnect = true},
    {.word = "READONLY",
     .advice = "it is a replica: redis.url must name the master, or sentinels",
     .wants_reconnect = true},
    {.word = "MASTERDOWN",
     .advice = "it is a replica: redis.url must name the master, or sentinels",
     .wants_reconnect = true},
    {.word = "NOREPLICAS",
     .advice = "fewer replicas follow than its min-replicas-to-write requires"},
    {.word = "BUSY",
     .advice = "a script or function of another client runs: SCRIPT KILL or FUNCTION KILL ends it"},
    {.word = "OOM", .advice = "it is full: raise its maxmemory or shorten windows"},
    {.word = "MISCONF", .advice = "it cannot save to its disk: its own log says why"},
    {.word = "NOAUTH",
     .advice = "redis.url needs a password, or set redis.password_file",
     .wants_reconnect = true},
    {.word = "WRONGPASS", .advice = "see user and password in redis.url, or redis.password_file"},
    {.word = "NOPERM", .advice = "see the ACL of its user; docs/redis.md lists what a user needs"},
    {.word = "WRONGTYPE",
     .advice = "another client has written a key that begins with sluice:; delete the key"},
    {.word = "ERR", .advice = "see docs/redis.md, When Redis fails"},
    {.word = "protocol", .advice = "check that redis.url is the address of Redis itself"},
}};

std::optional<std::size_t> KindOf(std::string_view error) {
  const std::string_view word = WordOf(error);
  const auto* const found = std::find_if(kErrorKinds.begin(), kErrorKinds.end(),
                                         [&](const ErrorKind& kind) { return kind.word == word; });
  if (found == kErrorKinds.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kErrorKinds.begin());
}

namespace {

// If the ACL forbids a command of the script, the error does not always contain the word NOPERM.
bool IsOfAcl(std::string_view error) {
  return error.find("executing the script can't") != error.npos ||
         error.find("ACL failure in script") != error.npos;
}

}  // namespace

std::string_view WordOf(std::string_view error) {
  if (IsOfAcl(error)) return "NOPERM";
  const bool from_script = error.starts_with('@') || error.starts_with("ERR Error running script");
  const std::size_t place_end = from_script ? error.find(": -") : error.npos;
  if (place_end != error.npos) error.remove_prefix(place_end + 3);
  return error.substr(0, error.find(' '));
}

bool WantsReconnect(std::string_view error) {
  const auto kind = KindOf(error);
  return kind && kErrorKinds[*kind].wants_reconnect;
}

bool IsRedirect(std::string_view error) {
  const std::string_view word = WordOf(error);
  return word == "MOVED" || word == "ASK" || word == "TRYAGAIN";
}

std::optional<Redirect> ParseRedirect(std::string_view error, const Address& from) {
  const auto slot_at = error.find(' ') + 1;
  const auto place_at = error.find(' ', slot_at) + 1;
  const auto port_at = error.rfind(':') + 1;
  if (slot_at == 0 || place_at == 0 || port_at <= place_at) return std::nullopt;
  Redirect to;
  to.address.host = error.substr(place_at, port_at - 1 - place_at);
  if (to.address.host == "?") return std::nullopt;
  if (to.address.host.empty()) to.address.host = from.host;
  const char* const end = error.data() + error.size();
  const auto slot = std::from_chars(error.data() + slot_at, end, to.slot);
  const auto port = std::from_chars(error.data() + port_at, end, to.address.port);
  if (slot.ec != std::errc() || port.ec != std::errc() || to.slot >= kSlots) return std::nullopt;
  return to;
}

// The error is "ERR Script attempted to access a non local key in a cluster node". Before version
// 7, Redis says "Lua script" instead of "Script".
bool IsForeignKey(std::string_view error) {
  return error.find("cript attempted to ") != std::string_view::npos;
}

bool RefusesUndeclaredKeys(std::string_view error) {
  return error.find("undeclared key") != std::string_view::npos;
}

}  // namespace sluice::redis
