// `sluice reload`: makes a server reload its rules.
#include <string>

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "tools/admin_call.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

Outcome ConcludeReload(const v1::ReloadRulesResponse& answer) {
  const std::string in_force =
      fmt::format("{} rules in force since {}", answer.rules(),
                  google::protobuf::util::TimeUtil::ToString(answer.loaded_at()));
  if (answer.unchanged()) return {fmt::format("unchanged: {}\n", in_force), kExitDone};
  if (answer.applied()) return {fmt::format("applied: {}\n", in_force), kExitDone};
  std::string text = fmt::format("refused: {}, as before\n", in_force);
  for (const std::string& error : answer.errors()) text += fmt::format("{}\n", error);
  return {text, kExitMistakes};
}

int Reload(const AdminOptions& options) {
  return CallAdmin<v1::ReloadRulesResponse>(options, "/sluice.v1.Admin/ReloadRules",
                                            v1::ReloadRulesRequest(), ConcludeReload);
}

void DeclareReload(CLI::App& app, AdminOptions& options) {
  options.server.timeout = std::chrono::minutes(1);
  options.AddTo(app);
  app.footer(
      "If any rule has a mistake, all are refused and the previous rules stay in force.\n"
      "Exit status: 0 applied or unchanged, 1 refused, 2 error.");
}

}  // namespace

const Command kReload = {"reload", "Make a server reload its rules",
                         Declare<AdminOptions, DeclareReload, Reload>};

}  // namespace sluice::tools
