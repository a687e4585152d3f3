#include "config/settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/diagnostic.h"
#include "config/scalar_parser.h"
#include "config/settings_file.h"

namespace sluice {
namespace {

constexpr std::string_view kConfigFlag = "--config";
constexpr std::string_view kConfigVariable = "SLUICE_CONFIG";

Error NotAllowed(std::string_view found, std::string_view allowed) {
  return InvalidArgument(fmt::format("found \"{}\"; allowed is {}", found, allowed));
}

// The whole of `text` as a number.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<void> SetAddress(Address& address, std::string_view text) {
  const auto parsed = Address::Parse(text);
  if (!parsed) return parsed.error();
  address = *parsed;
  return {};
}

Result<void> SetRedisTimeout(Settings& settings, std::string_view text) {
  const auto timeout = ParseDuration(text);
  if (!timeout || *timeout < std::chrono::milliseconds(1) || *timeout > std::chrono::minutes(1)) {
    return NotAllowed(text, "a duration from 1ms to 60s, such as 10ms");
  }
  settings.redis_timeout = *timeout;
  return {};
}

Result<void> SetDrain(Settings& settings, std::string_view text) {
  const auto drain = ParseDuration(text);
  if (!drain || *drain > std::chrono::minutes(10)) {
    return NotAllowed(text, "a duration from 1ms to 10m, such as 5s");
  }
  settings.drain = *drain;
  return {};
}

// One of a few words.
Result<void> SetWord(std::string& setting, std::string_view text,
                     std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    return NotAllowed(text, fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "),
                                        *(words.end() - 1)));
  }
  setting = text;
  return {};
}

Result<void> SetLogLevel(Settings& settings, std::string_view text) {
  return SetWord(settings.log_level, text, {"trace", "debug", "info", "warn", "error", "off"});
}

Result<void> SetLogFormat(Settings& settings, std::string_view text) {
  return SetWord(settings.log_format, text, {"text", "json"});
}

Result<void> SetAdminAccess(Settings& settings, std::string_view text) {
  return SetWord(settings.admin_access, text, {"off", "local", "token"});
}

// Whatever is wrong with it, a secret is not repeated.
Result<void> SetAdminToken(Settings& settings, std::string_view text) {
  const auto is_allowed = [](char c) { return c > ' ' && c < 0x7f; };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_allowed)) {
    return InvalidArgument("found no token; allowed are printable ASCII characters but spaces");
  }
  settings.admin_token = text;
  return {};
}

Result<void> SetAdminTokenFile(Settings& settings, std::string_view text) {
  std::ifstream file{std::string(text)};
  std::string token{std::istreambuf_iterator<char>(file), {}};
  if (!file) return InvalidArgument(fmt::format("{} cannot be read", text));
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  if (auto set = SetAdminToken(settings, token); !set) {
    return InvalidArgument(fmt::format("in {} {}", text, set.error().message));
  }
  return {};
}

Result<void> SetUnmatched(Settings& settings, std::string_view text) {
  if (text != "allow" && text != "deny") return NotAllowed(text, "allow or deny");
  settings.unmatched = text == "allow" ? Unmatched::kAllow : Unmatched::kDeny;
  return {};
}

Result<void> SetFleetShare(Settings& settings, std::string_view text) {
  const auto share = ParseNumber<double>(text);
  if (!share || !(*share > 0 && *share <= 1)) {
    return NotAllowed(text, "a number above 0, at most 1");
  }
  settings.fleet_share = *share;
  return {};
}

Result<void> SetMaxKeys(Settings& settings, std::string_view text) {
  const auto keys = ParseNumber<std::size_t>(text);
  if (!keys || *keys < 1 || *keys > 1'000'000'000) {
    return NotAllowed(text, "a whole number from 1 to 1000000000");
  }
  settings.max_keys = *keys;
  return {};
}

// Without key and flag: a secret, which has no place in a file of settings or a list of processes.
struct Setting {
  std::string_view key;
  std::string_view flag;
  std::string_view variable;
  std::string_view value;  // its name in --help
  std::string_view initial;
  std::string_view help;
  Result<void> (*set)(Settings&, std::string_view);
};

constexpr std::array kTable{
    Setting{"rules", "--rules", "SLUICE_RULES", "DIR", "none",
            "directory of rule files (*.yaml); none: every request is unmatched",
            [](Settings& settings, std::string_view text) -> Result<void> {
              settings.rules_directory = text;
              return {};
            }},
    Setting{"redis.url", "--redis", "SLUICE_REDIS", "URL", "none",
            "the shared store, redis://[user:password@]host[:port][/db] or unix://path; "
            "none: the embedded store, for one server alone",
            [](Settings& settings, std::string_view text) -> Result<void> {
              settings.redis_url = text;
              return {};
            }},
    Setting{"redis.timeout", "--redis-timeout", "SLUICE_REDIS_TIMEOUT", "TIME", "10ms",
            "how long a check waits for Redis before on_store_failure decides", SetRedisTimeout},
    Setting{
        "grpc", "--grpc", "SLUICE_GRPC", "ADDR", "0.0.0.0:8081",
        "where gRPC listens: host:port, [IPv6]:port or unix:PATH; port 0 takes a free one",
        [](Settings& settings, std::string_view text) { return SetAddress(settings.grpc, text); }},
    Setting{
        "http", "--http", "SLUICE_HTTP", "ADDR", "0.0.0.0:8080",
        "where HTTP listens (/healthz, /metrics); as --grpc",
        [](Settings& settings, std::string_view text) { return SetAddress(settings.http, text); }},
    Setting{"drain", "--drain", "SLUICE_DRAIN", "TIME", "5s",
            "how long callers get to leave and calls to end after SIGTERM", SetDrain},
    Setting{"log.level", "--log-level", "SLUICE_LOG_LEVEL", "LEVEL", "info",
            "trace, debug, info, warn, error or off; in the file, SIGHUP reads it again",
            SetLogLevel},
    Setting{"log.format", "--log-format", "SLUICE_LOG_FORMAT", "WORD", "text",
            "text, or json: one object a line", SetLogFormat},
    Setting{"admin.access", "--admin-access", "SLUICE_ADMIN_ACCESS", "WORD", "local",
            "who may explain, list, reset and reload: off (nobody), local (this machine), or token "
            "(whoever sends the admin token)",
            SetAdminAccess},
    Setting{"admin.token_file", "--admin-token-file", "SLUICE_ADMIN_TOKEN_FILE", "FILE", "none",
            "file that holds the admin token", SetAdminTokenFile},
    Setting{"", "", "SLUICE_ADMIN_TOKEN", "TOKEN", "none", "the admin token itself", SetAdminToken},
    Setting{"unmatched", "--unmatched", "SLUICE_UNMATCHED", "WORD", "allow",
            "allow or deny: requests that no rule matches, where their domain does not say",
            SetUnmatched},
    Setting{"fleet_share", "--fleet-share", "SLUICE_FLEET_SHARE", "SHARE", "1.0",
            "this server's share of every limit while Redis is away: 1 / number of servers",
            SetFleetShare},
    Setting{"max_keys", "--max-keys", "SLUICE_MAX_KEYS", "COUNT", "1000000",
            "the most counters the embedded store holds", SetMaxKeys},
};

const Setting* Find(std::string_view Setting::*name, std::string_view text) {
  if (text.empty()) return nullptr;
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const auto& setting) { return setting.*name == text; });
  return found == kTable.end() ? nullptr : &*found;
}

std::string Unknown(std::string_view what, std::string_view found, std::string_view Setting::*name,
                    std::string_view config) {
  std::vector<std::string_view> known;
  for (const auto& setting : kTable) {
    if (!(setting.*name).empty()) known.push_back(setting.*name);
  }
  if (!config.empty()) known.push_back(config);
  const std::string guess = DidYouMean(found, known);
  if (!guess.empty()) return fmt::format("no such {}{}", what, guess);
  return fmt::format("no such {}; allowed are {}", what, fmt::join(known, ", "));
}

// A value from one of the three sources, and where it stands.
struct Given {
  const Setting* setting;
  std::string value;
  std::string place;
};

class Reader {
 public:
  void ReadFlags(std::span<const std::string> arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string_view argument = arguments[i];
      const auto equals = argument.find('=');
      const std::string flag(argument.substr(0, equals));
      const Setting* setting = Find(&Setting::flag, flag);
      if (setting == nullptr && flag != kConfigFlag) {
        Mistake(flag, Unknown("flag", flag, &Setting::flag, kConfigFlag));
        const bool has_value = equals == std::string_view::npos && i + 1 < arguments.size() &&
                               !arguments[i + 1].starts_with("--");
        if (has_value) ++i;
        continue;
      }
      if (equals != std::string_view::npos) {
        Give(setting, std::string(argument.substr(equals + 1)), flag, flags_);
      } else if (i + 1 < arguments.size()) {
        Give(setting, arguments[++i], flag, flags_);
      } else {
        Mistake(flag, "found no value after it");
      }
    }
  }

  void ReadEnvironment(std::span<const std::string> environment) {
    for (const std::string_view entry : environment) {
      const auto equals = entry.find('=');
      const std::string name(entry.substr(0, equals));
      if (!name.starts_with("SLUICE_") || equals == std::string_view::npos) continue;
      const Setting* setting = Find(&Setting::variable, name);
      if (setting != nullptr || name == kConfigVariable) {
        Give(setting, std::string(entry.substr(equals + 1)), name, variables_);
      } else if (!IsFromKubernetes(name) && !IsOfTheTool(name)) {
        Mistake(name, Unknown("variable", name, &Setting::variable, kConfigVariable));
      }
    }
  }

  void ReadFile() {
    if (config_file_.empty()) return;
    const auto file = ReadSettingsFile(config_file_);
    if (!file) return mistakes_.push_back(file.error().message);
    mistakes_.insert(mistakes_.end(), file->mistakes.begin(), file->mistakes.end());
    for (const auto& [key, value, place] : file->settings) {
      const Setting* setting = Find(&Setting::key, key);
      if (setting == nullptr) {
        Mistake(place, key + ": " + Unknown("setting", key, &Setting::key, ""));
      } else {
        file_.push_back({setting, value, place + ": " + key});
      }
    }
  }

  Result<Settings> Apply() {
    Settings settings;
    for (const auto* source : {&file_, &variables_, &flags_}) {
      for (const auto& given : *source) {
        const auto set = given.setting->set(settings, given.value);
        if (!set) Mistake(given.place, set.error().message);
      }
    }
    if (settings.admin_access == "token" && settings.admin_token.empty()) {
      Mistake("admin.access",
              "found \"token\", but no token; give one by admin.token_file or SLUICE_ADMIN_TOKEN");
    }
    if (!mistakes_.empty()) return InvalidArgument(fmt::format("{}", fmt::join(mistakes_, "\n")));
    return settings;
  }

 private:
  // Kubernetes describes a service called "sluice" to every container of its namespace this way.
  static bool IsFromKubernetes(std::string_view name) {
    return name == "SLUICE_PORT" || name.starts_with("SLUICE_PORT_") ||
           name.starts_with("SLUICE_SERVICE_");
  }

  // What the command-line tool reads, exported by people who use both.
  static bool IsOfTheTool(std::string_view name) {
    return name == "SLUICE_ADDR" || name == "SLUICE_TOKEN";
  }

  // `setting` null: the name of the file. Flags are read first, so the first that names it wins.
  void Give(const Setting* setting, std::string value, std::string place,
            std::vector<Given>& source) {
    if (setting != nullptr) {
      source.push_back({setting, std::move(value), std::move(place)});
    } else if (config_file_.empty()) {
      config_file_ = std::move(value);
    }
  }

  void Mistake(std::string_view place, std::string_view what) {
    mistakes_.push_back(fmt::format("{}: {}", place, what));
  }

  std::string config_file_;
  std::vector<Given> file_, variables_, flags_;
  std::vector<std::string> mistakes_;
};

}  // namespace

Result<Settings> ReadSettings(std::span<const std::string> arguments,
                              std::span<const std::string> environment) {
  Reader reader;
  reader.ReadFlags(arguments);
  reader.ReadEnvironment(environment);
  reader.ReadFile();
  return reader.Apply();
}

std::string DescribeSettings() {
  std::string text =
      fmt::format("  {} FILE  ({})\n      YAML file with any of the settings below\n", kConfigFlag,
                  kConfigVariable);
  for (const auto& setting : kTable) {
    if (setting.flag.empty()) {
      fmt::format_to(std::back_inserter(text), "  {}={}  (as a variable only)\n      {}\n",
                     setting.variable, setting.value, setting.help);
      continue;
    }
    fmt::format_to(std::back_inserter(text),
                   "  {} {}  ({}, in the file {}; default {})\n      {}\n", setting.flag,
                   setting.value, setting.variable, setting.key, setting.initial, setting.help);
  }
  return text;
}

}  // namespace sluice
