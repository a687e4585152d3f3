// sluiced: reads settings and rules, then serves until SIGTERM or SIGINT; SIGHUP reloads the rules
// and the log level. Exit status: 0 after a clean stop, 1 if sluiced cannot run, 2 if settings or
// rules are wrong.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/envoy_environment.h"
#include "app/rule_reading.h"
#include "app/server.h"
#include "app/service_manager.h"
#include "app/version.h"
#include "base/log.h"

namespace sluice {
namespace {

// A flag without a value. sluiced then also reads the variables of Envoy's service. Other flags
// override these variables.
constexpr std::string_view kEnvoyEnvironment = "--envoy-env";

enum ExitStatus { kStopped = 0, kCannotRun = 1, kMistaken = 2 };

ExitStatus Fail(ExitStatus status, const Error& error) {
  fmt::print(stderr, "{}{}\n", StandardErrorIsJournal() ? "<3>" : "", error.message);
  return status;
}

void LogLines(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) spdlog::error("{}", line);
}

// For errors after the log has been set up. Uses the log if its lines are JSON, or if standard
// error is the journal, which reads a level from each line.
ExitStatus Fail(ExitStatus status, const Error& error, const Settings& settings) {
  if (settings.log_format != "json" && !StandardErrorIsJournal()) return Fail(status, error);
  LogLines(error.message);
  return status;
}

// The signals the server handles. Blocked in every thread, so that only main receives them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int WaitFor(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

// Reads the settings again and applies their log level. `settings` are the settings in force.
void RenewLogLevel(const std::vector<std::string>& arguments, Settings& settings) {
  const auto renewed = ReadSettings(arguments, Environment());
  if (!renewed) {
    LogLines(renewed.error().message);
    spdlog::error("HUP: the settings have mistakes; log.level stays {}", settings.log_level);
    return;
  }
  auto changed = ChangedSettings(settings, *renewed);
  std::erase(changed, "log.level");
  if (!changed.empty()) {
    spdlog::warn("HUP: only log.level takes effect; restart to apply {}", fmt::join(changed, ", "));
  }
  const std::string before = std::exchange(settings.log_level, renewed->log_level);
  if (before == settings.log_level) return;
  // Logged before the change if the old level shows the line, otherwise after the change.
  const auto say = [&] { spdlog::info("log.level: from {} to {}", before, settings.log_level); };
  const bool talkative = spdlog::should_log(spdlog::level::info);
  if (talkative) say();
  SetLogLevel(settings.log_level);
  if (!talkative) say();
}

// Returns the signal that stops the server.
int ServeUntilStopped(Server& server, const sigset_t& signals,
                      const std::vector<std::string>& arguments, Settings settings) {
  for (;;) {
    const int signal = WaitFor(signals);
    if (signal != SIGHUP) return signal;
    RenewLogLevel(arguments, settings);
    spdlog::info("HUP: reading the rules");
    service_manager::NotifyReloading();
    server.ReloadRules();
  }
}

ExitStatus Serve(const std::vector<std::string>& arguments, const Settings& settings,
                 const std::vector<std::string>& warnings) {
  const LogFormat format = settings.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  SetUpLog(settings.log_level, format);
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = BlockSignals();

  if (settings.rules_directory.empty() && !settings.envoy.is_on()) {
    spdlog::warn("rules: none (give --rules DIR); every request is unmatched");
  }
  const RuleSources sources = SourcesOf(settings);
  RuleReading rules = IndexRules(ReadFiles(sources), sources);
  if (!rules.ok()) {
    return Fail(kMistaken, {.message = fmt::to_string(fmt::join(rules.mistakes, "\n"))}, settings);
  }
  if (!settings.rules_directory.empty() && rules.index->size() == 0) {
    spdlog::warn(
        "rules: none in {}; every request is unmatched (*.yaml and *.yml in the directory itself "
        "are read, but not in subdirectories)",
        settings.rules_directory);
  }
  const auto server = Server::Start(settings, std::move(rules));
  if (!server) {
    const bool mistaken = server.error().code == ErrorCode::kInvalidArgument;
    return Fail(mistaken ? kMistaken : kCannotRun, server.error(), settings);
  }
  const Address* const admin = server.value()->admin_address();
  const std::string ready = fmt::format(
      "ready grpc={} http={} admin={}", server.value()->grpc_address().ToString(),
      server.value()->http_address().ToString(), admin != nullptr ? admin->ToString() : "off");
  spdlog::info("{}", ready);
  service_manager::NotifyReady(ready);

  const int signal = ServeUntilStopped(*server.value(), signals, arguments, settings);
  spdlog::info("{}: draining", sigabbrev_np(signal));
  service_manager::NotifyStopping();
  server.value()->Stop(settings.drain);
  spdlog::info("stopped");
  return kStopped;
}

bool Has(const std::vector<std::string>& arguments, std::string_view flag) {
  return std::ranges::find(arguments, flag) != arguments.end();
}

ExitStatus Main(std::vector<std::string> arguments) {
  if (Has(arguments, "--help") || Has(arguments, "-h")) {
    fmt::print(
        "sluiced: the rate-limit server. Flags override SLUICE_* variables, which override the "
        "file.\n\n{}  --envoy-env\n      also reads the variables of Envoy's rate limit service; "
        "flags override them\n  --help\n  --version\n\n"
        "Exit status: 0 after a clean stop, 1 if sluiced cannot run (such as an address in use), "
        "2 if settings\nor rules have mistakes.\n",
        DescribeSettings());
    return kStopped;
  }
  if (Has(arguments, "--version")) {
    fmt::print("sluiced {}\n", kVersion);
    return kStopped;
  }
  std::vector<std::string> warnings;
  if (std::erase(arguments, kEnvoyEnvironment) > 0) {
    auto envoy = ReadEnvoyEnvironment(Environment());
    if (!envoy) return Fail(kMistaken, envoy.error());
    arguments.insert(arguments.begin(), envoy->arguments.begin(), envoy->arguments.end());
    warnings = std::move(envoy->warnings);
  }
  const auto settings = ReadSettings(arguments, Environment());
  if (!settings) return Fail(kMistaken, settings.error());
  return Serve(arguments, *settings, warnings);
}

// The login ends at the last @, so that a password with unescaped characters is hidden, too. The
// sentinels' login is in the options of the URL.
void HideLogin(char* url) {
  char* const options = std::strchr(url, '?');
  if (options != nullptr && std::strstr(options, "sentinel_") != nullptr) {
    options[1] = '*';
    std::memset(options + 2, 0, std::strlen(options + 2));
  }
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

void HideText(char* text) {
  if (*text == '\0') return;
  *text = '*';
  std::memset(text + 1, 0, std::strlen(text + 1));
}

// Every user on the machine can read the arguments of this process, so this hides the secrets in
// them, in place. In the URL after --redis, replaces the user and the password by one `*`. Also
// replaces the URL's options if they contain the sentinels' login, and the headers for xDS.
void HideSecrets(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    for (const auto& [flag, hide] :
         {std::pair<std::string_view, void (*)(char*)>("--redis", HideLogin),
          {"--envoy-xds-headers", HideText}}) {
      if (argument == flag && i + 1 < count) {
        hide(arguments[++i]);
      } else if (argument.starts_with(flag) && argument.substr(flag.size()).starts_with('=')) {
        hide(arguments[i] + flag.size() + 1);
      }
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // Envoy Gateway starts the program in the image under the name of Envoy's service, `ratelimit`.
  const std::string_view name(argv[0]);
  if (name.substr(name.rfind('/') + 1) == "ratelimit") {
    arguments.emplace_back(sluice::kEnvoyEnvironment);
  }
  sluice::HideSecrets(argc, argv);  // after the arguments are copied
  return sluice::Main(std::move(arguments));
}
