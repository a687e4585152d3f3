// `sluice replay`: what rules would have done with the requests of a log.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/rules_loader.h"
#include "config/setting_values.h"
#include "replay/report.h"
#include "tools/command.h"
#include "tools/replay_report.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

using replay::RemoveConcurrency;
using replay::RequestLog;

// Requests that wait to be sorted take at most 1 / kWaitingShare of the memory.
constexpr std::size_t kWaitingShare = 4;

struct Options {
  std::string rules;
  std::string against;
  std::string domain;
  std::string html;
  std::optional<double> suggest;
  std::size_t memory = std::size_t{1} << 30;
  bool json = false;
  RequestLog::Options log;
};

std::string FieldOf(const std::string& text, const char* flag) {
  if (text.starts_with("$.") && text.size() > 2) return text.substr(2);
  throw CLI::ValidationError(
      fmt::format("{}: found \"{}\"; allowed is a field, such as $.userId", flag, text));
}

void AddField(CLI::App& app, const char* flag, std::optional<std::string>& field,
              const char* description) {
  app.add_option_function<std::string>(
         flag, [&field, flag](const std::string& text) { field = FieldOf(text, flag); },
         description)
      ->type_name("$.FIELD");
}

void AddFields(CLI::App& app, const char* flag, std::map<std::string, std::string>& fields,
               const char* description) {
  const auto add = [&fields, flag](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto equals = text.find('=');
      if (equals == std::string::npos || equals == 0) {
        throw CLI::ValidationError(fmt::format(
            "{}: found \"{}\"; allowed is NAME=$.FIELD, such as user=$.userId", flag, text));
      }
      fields[text.substr(0, equals)] = FieldOf(text.substr(equals + 1), flag);
    }
  };
  app.add_option_function<std::vector<std::string>>(flag, add, description)
      ->allow_extra_args(false)
      ->type_name("NAME=$.FIELD");
}

double ParseShare(const std::string& text) {
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  if (std::string_view(end) == "%" && percent >= 0 && percent < 100) return percent / 100;
  throw CLI::ValidationError(
      fmt::format("--suggest: found \"{}\"; allowed is a share below 100%, such as 0.1%", text));
}

// The rules of the domain. If they are invalid or have no such domain, prints why and returns
// nullopt.
std::optional<Domain> LoadDomain(const std::string& path, const std::string& wanted) {
  LoadedRules loaded = ParseRules(ReadRulesAt(path));
  for (const Diagnostic& error : loaded.errors) fmt::print(stderr, "{}\n", error.ToString());
  if (!loaded.ok()) return std::nullopt;
  std::string names;
  for (Domain& domain : loaded.rules) {
    const bool is_only = wanted.empty() && loaded.rules.size() == 1;
    if (is_only || domain.name == wanted) return std::move(domain);
    names += (names.empty() ? "" : ", ") + domain.name;
  }
  fmt::print(stderr, "{}: {}; its domains: {}\n", path,
             wanted.empty() ? "choose a domain by --domain" : "has no domain " + wanted,
             names.empty() ? "none" : names);
  return std::nullopt;
}

// On a terminal, shows how much has been read.
std::function<void(const RequestLog&)> ShowProgress(std::string pass) {
  if (isatty(STDERR_FILENO) == 0) return [](const RequestLog&) {};
  return [pass = std::move(pass), next = SteadyTime()](const RequestLog& log) mutable {
    constexpr int kCells = 30;
    const SteadyTime now = SteadyNow();
    if (now < next) return;
    next = now + std::chrono::milliseconds(100);
    std::string bar;
    if (log.size() > 0) {
      const double done = static_cast<double>(log.bytes_read()) / static_cast<double>(log.size());
      const auto cells = std::min(kCells, static_cast<int>(done * kCells));
      bar = fmt::format("[{:#<{}}{:.<{}}] {:.0f} % ", "", cells, "", kCells - cells, 100 * done);
    }
    fmt::print(stderr, "\r{}{}{} requests\x1b[K", pass, bar,
               replay::CountText(log.facts().requests));
  };
}

Result<replay::ReplayResult> RunOnce(const Options& options, const Domain& rules,
                                     std::optional<Domain> against, std::string pass) {
  RequestLog::Options log = options.log;
  log.max_memory = options.memory / kWaitingShare;
  auto result = replay::Replay({.log = log,
                                .rules = rules,
                                .against = std::move(against),
                                .max_memory = options.memory - log.max_memory,
                                .on_progress = ShowProgress(std::move(pass))});
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
  return result;
}

int Suggest(const Options& options, Domain rules) {
  replay::Suggestion suggestion(std::move(rules), *options.suggest);
  int pass = 0;
  while (auto trial = suggestion.NextTrial()) {
    const auto result = RunOnce(options, *trial, {}, fmt::format("pass {} ", ++pass));
    if (!result) return Fail(result.error());
    if (!result->stopped.empty()) return Fail({{}, result->stopped});
    suggestion.Learn(*result->server);
  }
  fmt::print("{}", options.json ? SuggestionJson(suggestion) + "\n" : SuggestionText(suggestion));
  return kExitDone;
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file.good();
}

int Run(const Options& options) {
  auto rules = LoadDomain(options.rules, options.domain);
  if (!rules) return kExitError;
  std::optional<Domain> against;
  if (!options.against.empty()) {
    if (against = LoadDomain(options.against, rules->name); !against) return kExitError;
    RemoveConcurrency(*against);
  }
  for (const std::string& name : replay::MissingAmounts(*rules, options.log.mapping.amounts)) {
    fmt::print(stderr, "no --amount {0}=$.FIELD is given, so limits that count {0} count nothing\n",
               name);
  }
  if (options.suggest) return Suggest(options, *std::move(rules));
  for (const std::string& name : RemoveConcurrency(*rules)) {
    fmt::print(stderr,
               "rule {}: its concurrency limits are ignored, because a log does not say when "
               "requests ended\n",
               name);
  }
  const auto result = RunOnce(options, *rules, std::move(against), "");
  if (!result) return Fail(result.error());
  fmt::print("{}", options.json ? ReplayJson(*result) + "\n" : ReplayText(*result));
  const std::string title = "Replay of " + options.rules;
  if (!options.html.empty() && !WriteFile(options.html, HtmlReport(*result, title))) {
    return Fail({{}, options.html + ": cannot be written"});
  }
  return result->stopped.empty() ? kExitDone : kExitError;
}

void AddLogOptions(CLI::App& app, RequestLog::Options& log) {
  app.add_option(
         "LOG", log.paths,
         "Logs of nginx's combined format, JSON lines, or CSV with a header, plain or gzip; "
         "-: standard input")
      ->required();
  AddFields(app, "--attribute", log.mapping.attributes,
            "Field of an attribute, such as user=$.userId; default: the field with the "
            "attribute's name; repeatable");
  AddField(app, "--time", log.mapping.time, "Field of the time; default: $.time");
  AddField(app, "--cost", log.mapping.cost, "Field of the cost; default: each request costs 1");
  AddFields(app, "--amount", log.mapping.amounts, "Field of an amount; repeatable");
  AddDuration(app, "--reorder",
              "Lines may be out of order by up to this time, such as 5s; default: 1s", log.reorder);
}

void DeclareReplay(CLI::App& app, Options& options) {
  options.log.reorder = std::chrono::seconds(1);
  app.add_option("RULES", options.rules, "Directory of rule files, or a single file")->required();
  AddLogOptions(app, options.log);
  app.add_option("--domain", options.domain, "Domain, if RULES has several");
  CLI::Option* const against =
      app.add_option("--against", options.against, "Other rules, to show what changes");
  CLI::Option* const html =
      app.add_option("--html", options.html, "Also write a page with charts to this file");
  app.add_option_function<std::string>(
         "--suggest",
         [&options](const std::string& text) {
           options.suggest = ParseShare(text);
           for (const std::string& path : options.log.paths) {
             if (path != "-") continue;
             throw CLI::ValidationError(
                 "--suggest reads the log several times, which standard input does not allow");
           }
         },
         "Print rules whose limits, each by itself, would have denied at most this share")
      ->type_name("SHARE")
      ->excludes(against, html);
  app.add_option_function<std::string>(
         "--memory",
         [&options](const std::string& text) {
           const auto set = SetBytes(options.memory)(text);
           if (!set) throw CLI::ValidationError("--memory", set.error().message);
         },
         "Maximum memory, in MiB or GiB; default: 1GiB")
      ->type_name("SIZE");
  app.add_flag("--json", options.json, "Print JSON");
  app.footer(
      "Decides the requests of the log in virtual time, as a server would have done. Needs no\n"
      "server. Fields of nginx: client_ip, user, time, method, endpoint (or path), query, status,\n"
      "bytes, referer, user_agent.\n"
      "Exit status: 0 done, 2 error, or the log does not fit in memory.\n"
      "Example: sluice replay config/rules /var/log/nginx/access.log.1");
}

}  // namespace

const Command kReplay = {"replay", "Show what rules would have done with the requests of a log",
                         Declare<Options, DeclareReplay, Run>};

}  // namespace sluice::tools
