#include "config/settings.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/diagnostic.h"
#include "config/settings_file.h"
#include "config/settings_table.h"

namespace sluice {
namespace {

constexpr std::string_view kConfigFlag = "--config";
constexpr std::string_view kConfigVariable = "SLUICE_CONFIG";

const Setting* Find(std::string_view Setting::*name, std::string_view text) {
  if (text.empty()) return nullptr;
  const auto table = SettingsTable();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const auto& setting) { return setting.*name == text; });
  return found == table.end() ? nullptr : &*found;
}

// The former names of settings, and their successors.
struct FormerName {
  std::string_view name;
  std::string_view successor;
};
constexpr FormerName kFormerNames[] = {
    {"admin.access", "admin.listen"},
    {"--admin-access", "--admin"},
    {"SLUICE_ADMIN_ACCESS", "SLUICE_ADMIN"},
    {"log_level", "log.level"},
    {"grpc.max_connection_age", "max_connection_age"},
    {"--grpc-max-connection-age", "--max-connection-age"},
    {"SLUICE_GRPC_MAX_CONNECTION_AGE", "SLUICE_MAX_CONNECTION_AGE"},
};

std::string Unknown(std::string_view what, std::string_view found, std::string_view Setting::*name,
                    std::string_view config) {
  for (const auto& former : kFormerNames) {
    if (former.name != found) continue;
    return fmt::format("no such {} any more; use {}", what, former.successor);
  }
  std::vector<std::string_view> known;
  for (const auto& setting : SettingsTable()) {
    if (!(setting.*name).empty()) known.push_back(setting.*name);
  }
  if (!config.empty()) known.push_back(config);
  const std::string guess = DidYouMean(found, known);
  if (!guess.empty()) return fmt::format("no such {}{}", what, guess);
  return fmt::format("no such {}; allowed are {}", what, fmt::join(known, ", "));
}

// A value from one of the three sources, and its position.
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
        // Not quoted: the argument may be the value of a flag, such as a URL with a password.
        Mistake(flag.starts_with("--") ? flag : fmt::format("argument {}", i + 1),
                Unknown("flag", flag, &Setting::flag, kConfigFlag));
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
    callers_ = file->callers;
    for (const auto& [key, value, place] : file->settings) {
      const Setting* setting = Find(&Setting::key, key);
      if (setting == nullptr) setting = Find(&Setting::key, key + ".listen");  // grpc: ADDR
      if (setting == nullptr) {
        Mistake(place, key + ": " + Unknown("setting", key, &Setting::key, ""));
      } else {
        file_.push_back({setting, value, place + ": " + key});
      }
    }
  }

  Result<Settings> Apply() {
    Settings settings;
    settings.callers = callers_;
    for (const auto* source : {&file_, &variables_, &flags_}) {
      for (const auto& given : *source) {
        const auto set = given.setting->set(settings, given.value);
        if (!set) Mistake(given.place, set.error().message);
      }
    }
    if (mistakes_.empty()) {  // else a setting may be absent because it is wrong
      CheckTls(settings);
      CheckRedisTls(settings);
      CheckEffect(settings);
      CheckAdmin(settings);
      CheckIdentities(settings);
    }
    if (!mistakes_.empty()) return InvalidArgument(fmt::format("{}", fmt::join(mistakes_, "\n")));
    return settings;
  }

 private:
  // Kubernetes passes such variables to every container of a namespace with a service "sluice".
  static bool IsFromKubernetes(std::string_view name) {
    return name == "SLUICE_PORT" || name.starts_with("SLUICE_PORT_") ||
           name.starts_with("SLUICE_SERVICE_");
  }

  // Variables of the command-line tool, exported by users of both.
  static bool IsOfTheTool(std::string_view name) {
    return name == "SLUICE_ADDR" || name == "SLUICE_TOKEN";
  }

  // `setting` null: the name of the file. Flags are read first, so the first value wins.
  void Give(const Setting* setting, std::string value, std::string place,
            std::vector<Given>& source) {
    if (setting != nullptr) {
      source.push_back({setting, std::move(value), std::move(place)});
    } else if (config_file_.empty()) {
      config_file_ = std::move(value);
    }
  }

  void CheckTls(const Settings& settings) {
    const bool has_certificate = !settings.tls_certificate.empty();
    if (has_certificate && settings.tls_key.empty()) {
      Mistake("tls.certificate", "needs its private key as tls.key");
    }
    if (!has_certificate && !(settings.tls_key + settings.tls_client_ca).empty()) {
      Mistake(settings.tls_key.empty() ? "tls.client_ca" : "tls.key",
              "has no effect without tls.certificate");
    }
  }

  void CheckRedisTls(const Settings& settings) {
    const std::string& certificate = settings.redis_tls_certificate;
    const std::string& key = settings.redis_tls_key;
    if (certificate.empty() != key.empty()) {
      Mistake(key.empty() ? "redis.tls.certificate" : "redis.tls.key",
              "a certificate needs its private key, as redis.tls.key, and a key its certificate");
    }
    const auto given = settings.redis_tls_ca + certificate + key + settings.redis_tls_server_name;
    if (!given.empty() && !settings.redis_url.starts_with("rediss")) {
      Mistake("redis.tls", "has no effect unless redis.url begins with rediss");
    }
  }

  // A setting without effect hides that another is missing.
  void CheckEffect(const Settings& settings) {
    if (!settings.redis_password_file.empty() && settings.redis_url.empty()) {
      Mistake("redis.password_file", "has no effect without redis.url");
    }
    if (settings.grpc_socket_mode && !settings.grpc.is_unix()) {
      Mistake("grpc.socket_mode", "has no effect unless grpc.listen is a unix socket");
    }
  }

  void CheckAdmin(const Settings& settings) {
    const auto address = Address::Parse(settings.admin);
    const bool opens = !(settings.admin_token + settings.admin_token_file).empty() ||
                       !settings.admin_identities.empty();
    if (address && !address->is_unix() && !opens) {
      Mistake(
          "admin.listen",
          fmt::format(
              "found \"{}\", a TCP address to which no caller has access; set admin.token_file, "
              "SLUICE_ADMIN_TOKEN or admin.identities",
              settings.admin));
    }
  }

  void CheckIdentities(const Settings& settings) {
    if (!settings.tls_client_ca.empty()) return;
    if (!settings.admin_identities.empty()) {
      Mistake("admin.identities", "has no effect without tls.client_ca");
    }
    for (const Caller& caller : settings.callers) {
      if (caller.identities.empty()) continue;
      Mistake("callers." + caller.name, "identities have no effect without tls.client_ca");
    }
  }

  void Mistake(std::string_view place, std::string_view what) {
    mistakes_.push_back(fmt::format("{}: {}", place, what));
  }

  std::string config_file_;
  std::vector<Caller> callers_;
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
  for (const auto& setting : SettingsTable()) {
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
