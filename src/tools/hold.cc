// `sluice hold`: runs a command while holding slots of concurrency limits, or units of all limits.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "client/client.h"
#include "client/duration.h"
#include "client/grpc_status.h"
#include "tools/answer_text.h"
#include "tools/child_process.h"
#include "tools/command.h"
#include "tools/lease_keeper.h"
#include "tools/request_options.h"
#include "tools/server_options.h"
#include "tools/signal_queue.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

// Unlike fmt::print, does not throw if stderr is closed: the lease must still be renewed.
template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(("sluice: " + fmt::format(format, std::forward<Args>(args)...)).c_str(), stderr);
}

// The exit statuses that the shell, env, timeout and nohup use, too.
constexpr int kExitCannotRun = 126, kExitNoSuchCommand = 127, kExitSignaled = 128;

struct HoldOptions {
  ServerOptions server;
  RequestOptions request;
  std::uint64_t cost = 1;
  std::optional<Duration> wait;
  std::optional<Duration> lease_ttl;  // of units
  std::string settle_from;            // file of the command's usage; "": units stay as taken
  std::vector<int> overload_status = {69, 75, 124, 137};
  bool kill_on_loss = false;
  std::vector<std::string> command;
};

// The answer that allows the request. If the command must not run, `status` is set instead.
struct Admission {
  v1::CheckLimitResponse answer;
  SteadyTime asked, answered;
  std::optional<int> status;
};

// How long to wait before the next attempt. For a concurrency limit, retry_after is the time until
// a lease expires, but a slot may be released much earlier. Other limits do not admit before
// retry_after.
Duration RetryPause(const v1::CheckLimitResponse& denial) {
  Duration pause = std::chrono::milliseconds(100);
  for (const v1::LimitStatus& limit : denial.limits()) {
    if (limit.admitted() || limit.shadow()) continue;
    const Duration retry_after = ToDuration(limit.retry_after());
    const bool slots = limit.algorithm() == v1::ALGORITHM_CONCURRENCY;
    pause = std::max(
        pause, slots ? std::min<Duration>(retry_after, std::chrono::seconds(1)) : retry_after);
  }
  return pause;
}

Admission Ask(const HoldOptions& options, Client& client, std::optional<SteadyTime> deadline) {
  auto request = options.request.ToRequest<v1::CheckLimitRequest>();
  request.set_cost(options.cost);
  if (deadline) {
    const auto left = std::chrono::ceil<Duration>(*deadline - SteadyNow());
    *request.mutable_max_wait() = ToProto(std::max(left, Duration::zero()));
  }
  if (options.lease_ttl) *request.mutable_lease_ttl() = ToProto(*options.lease_ttl);
  Admission admission{.asked = SteadyNow()};
  const auto answer = client.Check(request, options.server.timeout);
  admission.answered = SteadyNow();
  if (answer) {
    admission.answer = *answer;
  } else {
    admission.status = FailCall(client.address(), client.connected(), answer.error(), false);
  }
  return admission;
}

// Checks until the request is allowed or `wait` has passed.
Admission Admit(const HoldOptions& options, Client& client, SignalQueue& signals) {
  std::optional<SteadyTime> deadline;
  if (options.wait) deadline = SteadyNow() + *options.wait;
  for (bool first = true;; first = false) {
    Admission admission = Ask(options, client, deadline);
    const v1::CheckLimitResponse& answer = admission.answer;
    if (admission.status || answer.decision() == v1::DECISION_ALLOWED) return admission;
    const bool again = deadline && admission.answered < *deadline && answer.has_retry_after();
    if (first || !again) {
      Say("{}", DecisionText(options.request.ToRequest<v1::CheckLimitRequest>(), answer));
    }
    if (!again) {
      admission.status = kExitDenied;
      return admission;
    }
    if (first) Say("trying for {}\n", HumanDuration(*options.wait));
    const SteadyTime retry = std::min(admission.answered + RetryPause(answer), *deadline);
    if (const auto signal = signals.WaitUntil(retry)) {
      admission.status = kExitSignaled + signal->number;
      return admission;
    }
  }
}

// Whether the command may run although the answer has no lease. It may if a rule allows the request
// without counting it. It also may if a limit gave no lease for the slots or units that the command
// would hold, because the limit is in shadow mode or the store failed. If the command may not run,
// prints why.
bool MayGoWithoutLease(const HoldOptions& options, const v1::CheckLimitResponse& answer) {
  if (answer.source() == v1::SOURCE_RULE) return true;
  for (const v1::LimitStatus& limit : answer.limits()) {
    if (limit.algorithm() != v1::ALGORITHM_CONCURRENCY && !options.lease_ttl) continue;
    if (limit.units() == 0) continue;  // the limit counts an amount that was not given
    if (answer.source() == v1::SOURCE_FALLBACK) {
      Say("the store failed, and the rule's on_store_failure lets the command run "
          "without a lease\n");
    }
    return true;
  }
  Say("nothing to hold, so the command was not run: no {} applies, or those that apply count an "
      "amount that was not given{}\n"
      "  {}"
      "  See the limits: sluice explain {} {}\n"
      "{}",
      options.lease_ttl ? "limit" : "concurrency limit",
      options.lease_ttl ? "" : ". Other limits stay charged",
      DecisionText(options.request.ToRequest<v1::CheckLimitRequest>(), answer),
      options.request.domain, fmt::join(options.request.attributes, " "),
      options.lease_ttl ? "" : "  Other limits:   --lease-ttl 60s holds their units\n");
  return false;
}

void OnChange(const LeaseKeeper::Change& change, bool kill_on_loss) {
  using State = LeaseKeeper::State;
  const std::string reason =
      fmt::format("{}: {}", CodeName(change.reason.code), change.reason.message);
  switch (change.state) {
    case State::kHeld:
      return Say("the lease is renewed again\n");
    case State::kUnanswered:
      return Say("the lease cannot be renewed, and is valid for {} more ({})\n",
                 HumanDuration(change.left), reason);
    case State::kOverdue:
      Say("the lease was not renewed in time: another caller may have its slot ({})\n", reason);
      break;
    case State::kLost:
      Say("the lease is lost: another caller may have its slot ({})\n", reason);
      break;
  }
  if (kill_on_loss) kill(getpid(), SIGTERM);  // forwarded like any other signal
}

// A flag's check. A pipe is refused because the opening of a pipe can block for ever.
std::string IsFileOrAbsent(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return "";
  return path +
         " is not a regular file; allowed is a regular file, or a path where none exists yet";
}

// Empties the file to which the command writes its usage. Otherwise, if the command fails before it
// writes, the lease would be settled with the usage of an earlier run.
bool EmptyUsage(const std::string& path) {
  std::error_code error;
  if (!path.empty()) std::filesystem::resize_file(path, 0, error);
  if (!error) return true;
  if (error == std::errc::no_such_file_or_directory) {
    const auto folder = std::filesystem::absolute(path).parent_path();
    if (std::error_code ignored; std::filesystem::exists(folder, ignored)) return true;
  }
  Say("{} cannot be emptied ({}), so the command was not run\n", path, error.message());
  return false;
}

// Sleeps for the answer's wait, then runs the command. If a signal arrives during the wait, the
// command is not run. Returns the exit status.
int RunAtItsTime(const HoldOptions& options, const Admission& admission, SignalQueue& signals,
                 bool& was_run) {
  const Duration wait = ToDuration(admission.answer.wait());  // zero if the answer has no wait
  if (const auto signal = signals.WaitUntil(admission.answered + wait)) {
    return kExitSignaled + signal->number;
  }
  if (!EmptyUsage(options.settle_from)) return kExitError;
  const auto status = RunChild(options.command, signals);
  was_run = status.has_value();
  if (was_run) return *status;
  Say("{}\n", status.error().message);
  return status.error().code == ErrorCode::kNotFound ? kExitNoSuchCommand : kExitCannotRun;
}

// The usage that the command has written to `path`, in lines such as tokens=1312 or cost=3.
Result<v1::SettleLeaseRequest> ReadUsage(const std::string& path) {
  std::ifstream file(path);
  if (!file) return InvalidArgument(fmt::format("{} cannot be read", path));
  v1::SettleLeaseRequest used;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    const auto amount = ParseAmount(line);
    if (!amount)
      return InvalidArgument(fmt::format("{}:{}: {}", path, number, amount.error().message));
    if (amount->first == "cost") {
      used.set_cost(amount->second);
    } else {
      (*used.mutable_amounts())[amount->first] = amount->second;
    }
  }
  return used;
}

// The usage with which the lease is settled. If the command was not run, nothing was used.
v1::SettleLeaseRequest UsageOf(const HoldOptions& options, bool was_run) {
  v1::SettleLeaseRequest used;
  if (!was_run) {
    used.set_cost(0);
    for (const auto& [name, amount] : options.request.amounts.amounts) {
      (*used.mutable_amounts())[name] = 0;
    }
    (*used.mutable_amounts())["requests"] = 0;
    return used;
  }
  if (options.settle_from.empty()) return used;
  auto read = ReadUsage(options.settle_from);
  if (read) return std::move(*read);
  Say("{}; the units stay charged as taken\n", read.error().message);
  return used;
}

// A failure whose status is not in overload_status says nothing about the service's load.
v1::HoldOutcome OutcomeOf(const HoldOptions& options, bool was_run, int status) {
  const auto& overload = options.overload_status;
  if (!was_run) return v1::HOLD_OUTCOME_IGNORE;
  if (std::ranges::find(overload, status) != overload.end()) return v1::HOLD_OUTCOME_OVERLOAD;
  return status == 0 ? v1::HOLD_OUTCOME_OK : v1::HOLD_OUTCOME_IGNORE;
}

// The command with which an operator can settle the lease if this process could not settle it.
std::string SettleCommand(const std::string& lease, const v1::SettleLeaseRequest& used) {
  std::string text = "sluice settle '";
  for (const char c : lease) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  text += "'";
  if (used.has_cost()) text += fmt::format(" --cost {}", used.cost());
  for (const auto& [name, units] : used.amounts()) {
    text += fmt::format(" --amount {}={}", name, units);
  }
  return text;
}

void EndLease(const HoldOptions& options, LeaseKeeper& keeper, bool was_run, int status) {
  const v1::HoldOutcome outcome = OutcomeOf(options, was_run, status);
  if (!options.lease_ttl) {
    if (const auto released = keeper.Release(outcome); !released) {
      Say("the lease could not be released, and will expire ({}: {})\n",
          CodeName(released.error().code), released.error().message);
    }
    return;
  }
  v1::SettleLeaseRequest used = UsageOf(options, was_run);
  used.set_hold_outcome(outcome);
  const auto settled = keeper.Settle(used);
  if (!settled) {
    Say("the lease could not be settled, and its units stay as taken ({}: {})\n"
        "  Settle it until 10 minutes after its end:  {}\n",
        CodeName(settled.error().code), settled.error().message, SettleCommand(keeper.id(), used));
  } else if (settled->outcome() != v1::OUTCOME_SETTLED) {
    Say("{}", SettlementText(*settled));
  } else if (was_run && !options.settle_from.empty()) {
    for (const std::string& name : settled->uncounted_amounts()) {
      Say("amount {} was ignored: no limit of the lease counts it\n", name);
    }
  }
}

int Hold(const HoldOptions& options) {
  SignalQueue signals;  // before the client, which starts threads
  const auto connected = Connect(options.server.ToTarget());
  if (!connected) return Fail(connected.error());
  Client& client = **connected;
  const Admission admission = Admit(options, client, signals);
  if (admission.status) return *admission.status;
  if (!admission.answer.has_lease()) {
    if (!MayGoWithoutLease(options, admission.answer)) return kExitError;
    bool was_run = false;
    return RunAtItsTime(options, admission, signals, was_run);
  }
  LeaseKeeper keeper(client, admission.answer.lease(),
                     {.asked = admission.asked,
                      .timeout = options.server.timeout,
                      .on_change = [&options](const LeaseKeeper::Change& change) {
                        OnChange(change, options.kill_on_loss);
                      }});
  bool was_run = false;
  const int status = RunAtItsTime(options, admission, signals, was_run);
  EndLease(options, keeper, was_run, status);
  return status;
}

void DeclareHold(CLI::App& app, HoldOptions& options) {
  options.request.AddTo(app);
  app.add_option("COMMAND", options.command, "After --: the command and its arguments")
      ->allow_extra_args(false)  // otherwise CLI11 splits a word like "[a,b]"
      ->required();
  app.add_option("--cost", options.cost, "Slots to hold")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 53))
      ->type_name("SLOTS")
      ->capture_default_str();
  options.request.amounts.AddTo(app);
  AddDuration(app, "--wait", "If denied, retry for up to this long", options.wait);
  CLI::Option* const lease_ttl =
      AddDuration(app, "--lease-ttl", "Hold the units of all limits, for this long without renewal",
                  options.lease_ttl);
  app.add_option("--settle-from", options.settle_from,
                 "When COMMAND ends, settle with the lines that it wrote to this file, such as "
                 "tokens=1312; without lines, units stay as taken. The file is emptied before "
                 "COMMAND starts")
      ->type_name("FILE")
      ->check(IsFileOrAbsent)
      ->needs(lease_ttl);
  app.add_option("--overload-status", options.overload_status,
                 "Exit statuses of COMMAND that report an overload to limits with adapt. 0 reports "
                 "success; other statuses report nothing")
      ->delimiter(',')
      ->check(CLI::Range(0, 255))
      ->type_name("STATUS,…")
      ->capture_default_str();
  app.add_flag("--kill-on-loss", options.kill_on_loss,
               "Send the command SIGTERM if the lease is lost, or not renewed in time");
  options.server.AddTo(app);
  app.footer(
      "The lease is renewed while COMMAND runs, and released or settled when COMMAND ends,\n"
      "however it ends. Signals are passed on to COMMAND.\n"
      "Exit status: COMMAND's own (128 + the signal that killed it, 126 if it cannot be run, 127\n"
      "if it is not found). If COMMAND was not run: 1 denied, 2 error or no slot to hold; stderr\n"
      "says why.\n"
      "Example: sluice hold shop endpoint=/export --wait 60s -- tar -czf shop.tgz config");
}

}  // namespace

const Command kHold = {"hold", "Run a command while holding slots or units of limits",
                       Declare<HoldOptions, DeclareHold, Hold>};

}  // namespace sluice::tools
