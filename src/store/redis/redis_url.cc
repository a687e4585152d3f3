#include "store/redis/redis_url.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/percent.h"

namespace sluice {
namespace {

constexpr std::uint16_t kDefaultPort = 6379;
constexpr std::string_view kForms =
    "redis://[[user]:password@]host[:port][/db] or unix://[[user]:password@]/path[?db=N], where "
    "user "
    "and password have % as %25, : as %3A, / as %2F, ? as %3F, # as %23 and @ as %40";

// Never quotes the URL: where one character of it is wrong, any part may be the password's.
Error Malformed(std::string_view why) {
  return InvalidArgument(fmt::format("redis URL: {}; allowed is {}", why, kForms));
}

// Splits `text` at the first `separator`; the second part is empty if there is none.
std::pair<std::string_view, std::string_view> Split(std::string_view text, char separator) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

Result<void> SetDatabase(std::string_view text, RedisUrl& url) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), url.database);
  if (error != std::errc() || end != text.data() + text.size() || url.database < 0) {
    return Malformed("the database is no number");
  }
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
  url.user = *decoded_user;
  url.password = *decoded_password;
  return {};
}

Result<void> SetOptions(std::string_view text, RedisUrl& url) {
  while (!text.empty()) {
    const auto [option, rest] = Split(text, '&');
    const auto [name, value] = Split(option, '=');
    if (name == "client_name" && !value.empty()) {
      auto decoded = PercentDecode(value);
      if (!decoded)
        return Malformed("a % in client_name is not followed by two hexadecimal digits");
      url.client_name = std::move(*decoded);
    } else if (name == "db") {
      if (auto set = SetDatabase(value, url); !set) return set;
    } else {
      return Malformed("an option is not known (db, client_name)");
    }
    text = rest;
  }
  return {};
}

Result<void> SetHost(std::string_view text, RedisUrl& url) {
  const auto [host, database] = Split(text, '/');
  const bool has_port = host.rfind(':') != std::string_view::npos && !host.ends_with(']');
  auto address =
      Address::Parse(has_port ? std::string(host) : fmt::format("{}:{}", host, kDefaultPort));
  if (host.empty()) return Malformed("the host is empty");
  if (!address) return Malformed("the host or the port is wrong (IPv6 in brackets, port a number)");
  url.address = *address;
  return database.empty() ? Result<void>() : SetDatabase(database, url);
}

}  // namespace

std::string RedisUrl::ToString() const {
  return fmt::format("{} (database {})", address.ToString(), database);
}

Result<RedisUrl> RedisUrl::Parse(std::string_view text) {
  RedisUrl url;
  const bool is_unix = text.starts_with("unix://");
  if (!is_unix && !text.starts_with("redis://")) {
    return Malformed("no known scheme");
  }
  const auto [body, options] = Split(text.substr(is_unix ? 7 : 8), '?');
  if (options.find('@') != std::string_view::npos) {
    return Malformed("an @ stands behind a ?; a password has them as %40 and %3F");
  }
  const auto at = body.rfind('@');
  std::string_view place = body;
  if (at != std::string_view::npos) {
    if (auto set = SetLogin(body.substr(0, at), url); !set) return set.error();
    place = body.substr(at + 1);
  }
  if (is_unix) {
    const auto path = PercentDecode(place);
    if (!path || !path->starts_with('/')) return Malformed("the socket's path must begin with /");
    url.address.unix_path = *path;
  } else if (auto set = SetHost(place, url); !set) {
    return set.error();
  }
  if (auto set = SetOptions(options, url); !set) return set.error();
  return url;
}

}  // namespace sluice
