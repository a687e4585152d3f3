#include "app/visible_arguments.h"

#include <cstring>
#include <string_view>

namespace sluice {
namespace {

constexpr std::string_view kFlag = "--redis";

// The sentinels' login, which is an option.
void HideSentinelLogin(char* url) {
  char* const options = std::strchr(url, '?');
  if (options == nullptr || std::strstr(options, "sentinel_") == nullptr) return;
  options[1] = '*';
  std::memset(options + 2, 0, std::strlen(options + 2));
}

// Up to the last @, so that a password with unescaped characters is hidden, too.
void HideLogin(char* url) {
  char* const at = std::strrchr(url, '@');
  if (at == nullptr) return;
  char* const scheme_end = std::strstr(url, "://");
  char* const login = scheme_end != nullptr && scheme_end < at ? scheme_end + 3 : url;
  if (login == at) return;
  const std::size_t length = std::strlen(login);
  const std::size_t kept = std::strlen(at);
  *login = '*';
  std::memmove(login + 1, at, kept);
  std::memset(login + 1 + kept, 0, length - 1 - kept);
}

void HideLogins(char* url) {
  HideSentinelLogin(url);
  HideLogin(url);
}

}  // namespace

void HideLogins(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == kFlag && i + 1 < count) {
      HideLogins(arguments[++i]);
    } else if (argument.starts_with("--redis=")) {
      HideLogins(arguments[i] + kFlag.size() + 1);
    }
  }
}

}  // namespace sluice
