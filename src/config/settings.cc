#include "config/settings.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/diagnostic.h"
#include "config/settings_file.h"

namespace sluice {
namespace {

constexpr std::string_view kConfigFlag = "--config";
constexpr std::string_view kConfigVariable = "SLUICE_CONFIG";

// The name of the flag or variable for `key`, with `separator` between words. The endings .listen,
// .url and .server are left out.
std::string NameOf(std::string_view key, char separator) {
  for (const std::string_view silent : {".listen", ".url", ".server"}) {
    if (key.ends_with(silent)) key.remove_suffix(silent.size());
  }
  std::string name(key);
  for (char& c : name) {
    if (c == '.' || c == '_') c = separator;
  }
  return name;
}

std::string Uppercase(std::string text) {
  for (char& c : text) c = 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
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
      const Setting* const setting = Find(flag, &Setting::flag);
      if (setting == nullptr && flag != kConfigFlag) {
        // An argument without "--" is not quoted: it may be the value of a flag, such as a URL with
        // a password.
        Report(flag.starts_with("--") ? flag : fmt::format("argument {}", i + 1),
               Unknown("flag", flag, &Setting::flag,
                       {kConfigFlag, "--envoy-env", "--help", "--version"}));
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
        Report(flag, "found no value after it");
      }
    }
  }

  void ReadEnvironment(std::span<const std::string> environment) {
    for (const std::string_view entry : environment) {
      const auto equals = entry.find('=');
      const std::string name(entry.substr(0, equals));
      if (!name.starts_with("SLUICE_") || equals == std::string_view::npos) continue;
      const Setting* const setting = Find(name, &Setting::variable);
      if (setting != nullptr || name == kConfigVariable) {
        Give(setting, std::string(entry.substr(equals + 1)), name, variables_);
      } else if (!IsFromKubernetes(name) && !IsOfTheTool(name)) {
        Report(name, Unknown("variable", name, &Setting::variable, {kConfigVariable}));
      }
    }
  }

  void ReadFile() {
    if (config_file_.empty()) return;
    const SettingsFile file = ReadSettingsFile(config_file_);
    for (const Diagnostic& error : file.errors) errors_.push_back(error.ToString());
    settings_.callers = file.callers;
    for (const auto& [key, value, position] : file.values) {
      const Setting* setting = Find(key, &Setting::key);
      if (setting == nullptr) setting = Find(key + ".listen", &Setting::key);  // grpc: ADDR
      Diagnostic at{config_file_, position, key, ""};
      if (setting != nullptr) {
        file_.push_back({setting, value, at.ToString()});
      } else {
        at.message = Unknown("setting", key, &Setting::key, {});
        errors_.push_back(at.ToString());
      }
    }
  }

  Result<Settings> Apply() {
    for (const Setting& setting : table_) {
      settings_.texts.emplace(setting.key, setting.initial);
      if (setting.initial == "none") continue;
      if (const auto set = setting.set(setting.initial); !set) return set.error();
    }
    std::vector<Given> given;
    for (const auto* source : {&file_, &variables_, &flags_}) {
      given.insert(given.end(), source->begin(), source->end());
    }
    for (const auto& [setting, value, place] : given) {
      settings_.texts[std::string(setting->key)] = value;
      const auto last =
          std::find_if(given.rbegin(), given.rend(),
                       [setting = setting](const Given& it) { return it.setting == setting; });
      if (setting->initial == "none" && last->value == "none") continue;
      if (const auto set = setting->set(value); !set) Report(place, set.error().message);
    }
    if (errors_.empty()) {  // otherwise an invalid setting would seem absent
      CheckTls();
      CheckRedisTls();
      CheckXds(settings_.envoy.xds);
      Require(settings_.metrics_path.starts_with('/'), "metrics.path", "must begin with /");
      CheckEffect();
      CheckAdmin();
      CheckIdentities();
    }
    if (!errors_.empty()) return InvalidArgument(fmt::format("{}", fmt::join(errors_, "\n")));
    return std::move(settings_);
  }

 private:
  // A secret can only be set by its variable.
  const Setting* Find(std::string_view text, auto Setting::*name) const {
    for (const Setting& setting : table_) {
      if (setting.*name == text && IsNamedBy(setting, name)) return &setting;
    }
    return nullptr;
  }

  static bool IsNamedBy(const Setting& setting, auto Setting::*name) {
    const void* const named = &(setting.*name);
    return !setting.is_secret || named == &setting.variable;
  }

  // The message for a name that belongs to no setting and is not in `others`.
  std::string Unknown(std::string_view what, std::string_view found, auto Setting::*name,
                      std::initializer_list<std::string_view> others) const {
    std::vector<std::string_view> known;
    for (const Setting& setting : table_) {
      if (IsNamedBy(setting, name)) known.push_back(setting.*name);
    }
    known.insert(known.end(), others);
    const std::string guess = DidYouMean(found, known);
    if (!guess.empty()) return fmt::format("no such {}{}", what, guess);
    return fmt::format("no such {}; allowed are {}", what, fmt::join(known, ", "));
  }

  // Whether the variable describes a service "sluice". Kubernetes passes such variables to every
  // container in the namespace of the service.
  static bool IsFromKubernetes(std::string_view name) {
    return name == "SLUICE_PORT" || name.starts_with("SLUICE_PORT_") ||
           name.starts_with("SLUICE_SERVICE_");
  }

  // Variables of the command-line tool. They are allowed because the tool and the server may share
  // an environment.
  static bool IsOfTheTool(std::string_view name) {
    return name == "SLUICE_ADDR" || name == "SLUICE_TOKEN";
  }

  // If `setting` is null, `value` is the name of the settings file. If there are several names, the
  // first one applies, because flags are read before variables.
  void Give(const Setting* setting, std::string value, std::string place,
            std::vector<Given>& source) {
    if (setting != nullptr) {
      source.push_back({setting, std::move(value), std::move(place)});
    } else if (config_file_.empty()) {
      config_file_ = std::move(value);
    }
  }

  void CheckTls() {
    const bool has_certificate = !settings_.tls_certificate.empty();
    const bool has_key = !settings_.tls_key.empty();
    Require(!has_certificate || has_key, "tls.certificate", "needs its private key as tls.key");
    Require(has_certificate || (!has_key && settings_.tls_client_ca.empty()),
            has_key ? "tls.key" : "tls.client_ca", "has no effect without tls.certificate");
  }

  void CheckRedisTls() {
    const std::string& certificate = settings_.redis_tls_certificate;
    const std::string& key = settings_.redis_tls_key;
    Require(certificate.empty() == key.empty(), "redis.tls",
            "redis.tls.certificate and redis.tls.key must be set together");
    const auto given = settings_.redis_tls_ca + certificate + key + settings_.redis_tls_server_name;
    Require(given.empty() || settings_.uses_redis_tls(), "redis.tls",
            "has no effect unless redis.url begins with rediss");
  }

  void CheckXds(const XdsSettings& xds) {
    Require(xds.certificate.empty() == xds.key.empty(), "envoy.xds.tls",
            "envoy.xds.tls.certificate and envoy.xds.tls.key must be set together");
    Require(!xds.ca.empty() || (xds.certificate + xds.server_name).empty(), "envoy.xds.tls",
            "has no effect without envoy.xds.tls.ca");
    Require(xds.longest_pause >= xds.first_pause, "envoy.xds.longest_pause",
            "is shorter than envoy.xds.first_pause");
  }

  // If a setting has no effect, another setting is probably missing.
  void CheckEffect() {
    Require(settings_.redis_password_file.empty() || settings_.uses_redis(), "redis.password_file",
            "has no effect without redis.url");
    Require(!settings_.grpc_socket_mode || settings_.grpc.is_unix(), "grpc.socket_mode",
            "has no effect unless grpc.listen is a unix socket");
  }

  void CheckAdmin() {
    const auto address = Address::Parse(settings_.admin);
    const bool opens = !(settings_.admin_token + settings_.admin_token_file).empty() ||
                       !settings_.admin_identities.empty();
    Require(!address || address->is_unix() || opens, "admin.listen",
            fmt::format(
                "found \"{}\", a TCP address to which no caller has access; set admin.token_file, "
                "SLUICE_ADMIN_TOKEN or admin.identities",
                settings_.admin));
  }

  void CheckIdentities() {
    if (!settings_.tls_client_ca.empty()) return;
    Require(settings_.admin_identities.empty(), "admin.identities",
            "has no effect without tls.client_ca");
    for (const Caller& caller : settings_.callers) {
      Require(caller.identities.empty(), "callers." + caller.name,
              "identities have no effect without tls.client_ca");
    }
  }

  void Require(bool holds, std::string_view place, std::string_view otherwise) {
    if (!holds) Report(place, otherwise);
  }

  void Report(std::string_view place, std::string_view what) {
    errors_.push_back(fmt::format("{}: {}", place, what));
  }

  Settings settings_;
  const std::vector<Setting> table_ = SettingsTable(settings_);
  std::string config_file_;
  std::vector<Given> file_, variables_, flags_;
  std::vector<std::string> errors_;
};

}  // namespace

Setting::Setting(std::string_view its_key, std::string_view its_value, std::string_view its_initial,
                 std::string_view its_help, Setter its_set)
    : key(its_key),
      value(its_value),
      initial(its_initial),
      help(its_help),
      set(std::move(its_set)),
      flag("--" + NameOf(key, '-')),
      variable("SLUICE_" + Uppercase(NameOf(key, '_'))),
      is_secret(value == "TOKEN") {}

Result<Settings> ReadSettings(std::span<const std::string> arguments,
                              std::span<const std::string> environment) {
  Reader reader;
  reader.ReadFlags(arguments);
  reader.ReadEnvironment(environment);
  reader.ReadFile();
  return reader.Apply();
}

std::vector<std::string> ChangedSettings(const Settings& before, const Settings& after) {
  std::vector<std::string> changed;
  for (const auto& [key, text] : after.texts) {
    if (before.texts.at(key) != text) changed.push_back(key);
  }
  if (before.callers != after.callers) changed.emplace_back("callers");
  return changed;
}

std::string DescribeSettings() {
  std::string text =
      fmt::format("  {} FILE  ({})\n      YAML file with any of the settings below\n", kConfigFlag,
                  kConfigVariable);
  Settings settings;
  for (const Setting& setting : SettingsTable(settings)) {
    text += setting.is_secret
                ? fmt::format("  {}={}  (as a variable only)\n", setting.variable, setting.value)
                : fmt::format("  {} {}  ({}, in the file {}; default {})\n", setting.flag,
                              setting.value, setting.variable, setting.key, setting.initial);
    text += fmt::format("      {}\n", setting.help);
  }
  return text;
}

}  // namespace sluice
