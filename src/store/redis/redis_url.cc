#include "store/redis/redis_url.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace sluice {
namespace {

using Kind = RedisUrl::Kind;

constexpr std::uint16_t kDefaultPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::string_view kForms =
    "redis://[[user]:password@]host[:port][/db], unix://[[user]:password@]/path[?db=N], "
    "redis+sentinel://[[user]:password@]host[:port],…/master[/db][?sentinel_password=…], or "
    "redis+cluster://[[user]:password@]host[:port],…; for TLS, write rediss in place of redis; "
    "in user and password, write % as %25, : as %3A, / as %2F, ? as %3F, # as %23 and @ as %40";

struct Scheme {
  std::string_view text;
  Kind kind;
  bool tls;
};
constexpr std::string_view kUnix = "unix://";
constexpr std::array kSchemes{
    Scheme{"redis://", Kind::kSingle, false},
    Scheme{"rediss://", Kind::kSingle, true},
    Scheme{kUnix, Kind::kSingle, false},
    Scheme{"redis+sentinel://", Kind::kSentinel, false},
    Scheme{"rediss+sentinel://", Kind::kSentinel, true},
    Scheme{"redis+cluster://", Kind::kCluster, false},
    Scheme{"rediss+cluster://", Kind::kCluster, true},
};

// Never quotes the URL: if it is malformed, any part may belong to the password.
Error Malformed(std::string_view why) {
  return InvalidArgument(fmt::format("{}; allowed is {}", why, kForms));
}

// Splits `text` at the first `separator`. Without a separator, the second part is empty.
std::pair<std::string_view, std::string_view> Split(std::string_view text, char separator) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

Result<void> SetDatabase(std::string_view text, RedisUrl& url) {
  const auto database = ParseNumber<int>(text);
  if (!database || *database < 0) return Malformed("the database is not a number");
  if (url.kind == Kind::kCluster && *database != 0) return Malformed("a cluster has no databases");
  url.login.database = *database;
  return {};
}

Result<void> SetLogin(std::string_view text, RedisUrl& url) {
  const auto [user, password] = Split(text, ':');
  const auto decoded_user = PercentDecode(user);
  const auto decoded_password = PercentDecode(password);
  if (!decoded_user || !decoded_password) {
    return Malformed("a % in user or password is not followed by two hexadecimal digits");
  }
  if (decoded_password->empty()) return Malformed("the password is empty");
  url.login.user = *decoded_user;
  url.login.password = *decoded_password;
  return {};
}

// The destination of an option's value; null if there is no such option.
std::string* TextOption(std::string_view name, RedisUrl& url) {
  if (name == "client_name") return &url.login.client_name;
  if (name == "user") return &url.login.user;
  if (url.kind != Kind::kSentinel) return nullptr;
  if (name == "sentinel_user") return &url.sentinel_login.user;
  if (name == "sentinel_password") return &url.sentinel_login.password;
  return nullptr;
}

Result<void> SetOption(std::string_view name, std::string_view value, RedisUrl& url) {
  if (name == "db") return SetDatabase(value, url);
  std::string* const text = TextOption(name, url);
  if (text == nullptr || value.empty()) {
    return Malformed(
        "an option is unknown or empty (options are db, user, client_name and, with sentinels, "
        "sentinel_user and sentinel_password)");
  }
  auto decoded = PercentDecode(value);
  if (!decoded) {
    // The name is known, so it is safe to quote it.
    return Malformed(fmt::format("a % in {} is not followed by two hexadecimal digits", name));
  }
  *text = std::move(*decoded);
  return {};
}

Result<void> SetOptions(std::string_view text, RedisUrl& url) {
  while (!text.empty()) {
    const auto [option, rest] = Split(text, '&');
    const auto [name, value] = Split(option, '=');
    if (auto set = SetOption(name, value, url); !set) return set;
    text = rest;
  }
  url.sentinel_login.client_name = url.login.client_name;
  if (!url.sentinel_login.user.empty() && url.sentinel_login.password.empty()) {
    return Malformed("sentinel_user is given without sentinel_password");
  }
  return {};
}

Result<void> AddAddress(std::string_view host, RedisUrl& url) {
  const bool has_port = host.rfind(':') != std::string_view::npos && !host.ends_with(']');
  const auto port = url.kind == Kind::kSentinel ? kSentinelPort : kDefaultPort;
  auto address = Address::Parse(has_port ? std::string(host) : fmt::format("{}:{}", host, port));
  if (host.empty()) return Malformed("the host is empty");
  if (!address) return Malformed("the host or the port is wrong (IPv6 in brackets, port a number)");
  url.addresses.push_back(*address);
  return {};
}

// `text`: the part between the login and the options.
Result<void> SetPlace(std::string_view text, RedisUrl& url) {
  auto [hosts, path] = Split(text, '/');
  const bool several = url.kind != Kind::kSingle;
  bool has_more = true;
  while (has_more) {
    has_more = several && hosts.find(',') != hosts.npos;
    const auto [host, others] = has_more ? Split(hosts, ',') : std::pair(hosts, std::string_view());
    if (auto added = AddAddress(host, url); !added) return added;
    hosts = others;
  }
  if (url.kind == Kind::kSentinel) {
    const auto [master, database] = Split(path, '/');
    const auto decoded = PercentDecode(master);
    if (!decoded || decoded->empty())
      return Malformed("the sentinels' name of the master is empty or malformed");
    url.master = *decoded;
    path = database;
  }
  return path.empty() ? Result<void>() : SetDatabase(path, url);
}

Result<void> SetSocket(std::string_view text, RedisUrl& url) {
  auto path = PercentDecode(text);
  if (!path || !path->starts_with('/'))
    return Malformed("the socket's path does not begin with / or is malformed");
  url.addresses.push_back({.host = {}, .unix_path = std::move(*path)});
  return {};
}

}  // namespace

std::string RedisUrl::ToString() const {
  std::vector<std::string> names;
  for (const Address& address : addresses) names.push_back(address.ToString());
  const std::string listed = fmt::format("{}", fmt::join(names, ", "));
  switch (kind) {
    case Kind::kSingle:
      return fmt::format("{} (database {})", listed, login.database);
    case Kind::kSentinel:
      return fmt::format("{} (database {}; sentinels {})", master, login.database, listed);
    case Kind::kCluster:
      break;
  }
  return fmt::format("cluster of {}", listed);
}

Result<RedisUrl> RedisUrl::Parse(std::string_view text) {
  const auto scheme = std::find_if(kSchemes.begin(), kSchemes.end(),
                                   [&](const Scheme& it) { return text.starts_with(it.text); });
  if (scheme == kSchemes.end()) return Malformed("no known scheme");
  RedisUrl url{.kind = scheme->kind, .tls = scheme->tls};
  const auto [body, options] = Split(text.substr(scheme->text.size()), '?');
  if (options.find('@') != std::string_view::npos) {
    return Malformed("an @ follows a ?; in a password, write them as %40 and %3F");
  }
  const auto at = body.rfind('@');
  std::string_view place = body;
  if (at != std::string_view::npos) {
    if (auto set = SetLogin(body.substr(0, at), url); !set) return set.error();
    place = body.substr(at + 1);
  }
  const auto set_place = scheme->text == kUnix ? SetSocket : SetPlace;
  if (auto set = set_place(place, url); !set) return set.error();
  if (auto set = SetOptions(options, url); !set) return set.error();
  return url;
}

}  // namespace sluice
