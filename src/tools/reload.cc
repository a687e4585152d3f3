// `sluice reload`: makes a server read its rules again.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "tools/admin_call.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

Outcome Conclude(const v1::ReloadRulesResponse& answer) {
  const std::string in_force =
      fmt::format("{} rules in force since {}", answer.rules(),
                  google::protobuf::util::TimeUtil::ToString(answer.loaded_at()));
  if (answer.applied()) return {fmt::format("applied: {}\n", in_force), kExitDone};
  std::string text = fmt::format("refused: {}, as before\n", in_force);
  for (const std::string& error : answer.errors()) text += fmt::format("{}\n", error);
  return {text, kExitMistakes};
}

std::function<int()> Declare(CLI::App& app) {
  auto options = std::make_shared<AdminOptions>();
  options->server.timeout = std::chrono::minutes(1);
  options->AddTo(app);
  app.footer(
      "A set with any mistake is refused as a whole, and the rules of before stay in force.\n"
      "Exit status: 0 applied, 1 refused, 2 error.");
  return [options] {
    return CallAdmin<v1::ReloadRulesRequest, v1::ReloadRulesResponse>(
        *options, &AdminClient::ReloadRules, {}, Conclude);
  };
}

}  // namespace

const Command kReload = {"reload", "Make a server read its rules again", Declare};

}  // namespace sluice::tools
