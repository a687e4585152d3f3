// Measures what a check costs Redis if it is alone in its script call, compared with the usual
// script of tutorials (INCRBY and EXPIRE). Also compares 2 to 8 checks that are sent at once, each
// in its own call, with the same checks in one pack. The CPU time is the Redis process's. The two
// sides of a comparison run alternately, in `--pairs` pairs. The ratio is computed in each pair.
//
//   build/release/bench/lone_check [--pairs 60] [--calls 500] [--case NAME]
//                                [--record FILE | --versus FILE]
//
// --record writes the calls of this build to FILE, and measures nothing. --versus also compares
// this build with the build that wrote FILE.
#include <hiredis/hiredis.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/random.h"
#include "store/redis/connection.h"
#include "store/redis/script.h"
#include "store/redis/script_call.h"
#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"
#include "tests/support/require.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kUsers = 1000;

constexpr std::string_view kTutorial =
    "local n = redis.call('INCRBY', KEYS[1], ARGV[1]) "
    "redis.call('EXPIRE', KEYS[1], ARGV[2]) return n";

double MicrosecondsOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

std::string CommandOf(std::vector<std::string_view> words,
                      std::span<const std::string_view> more = {}) {
  words.insert(words.end(), more.begin(), more.end());
  std::string command;
  redis::AppendCommand(words, command);
  return command;
}

// The calls of one case, by user, in Redis' protocol.
struct Case {
  std::string script;
  std::vector<std::string> calls;
  std::vector<std::string> afterward;  // sent after all calls, not measured
  int commands = 1;                    // in each call
};
using Cases = std::map<std::string, Case>;

std::string CallOf(const StoreCheck& check) {
  redis::ScriptCall call;
  call.Add(check, 1);
  return CommandOf({"EVALSHA", redis::kCheckScript.sha1}, call.Arguments());
}

struct Rule {
  const char* name;
  Limit limit;
  bool of_site = false;
};

Case Make(const char* name, const std::vector<Rule>& rules, std::int64_t cost = 1) {
  Case made{.script = std::string(redis::kCheckScript.text)};
  for (int user = 0; user < kUsers; ++user) {
    std::vector<CounterSpec> specs;
    for (const Rule& rule : rules) {
      const std::string subject = rule.of_site ? "" : fmt::format("user={}", user);
      specs.push_back(
          {fmt::format("sluice:{{{}/{}/{}}}:{}", name, rule.name, subject, CounterTag(rule.limit)),
           rule.limit});
    }
    BlockingCheck check(specs, cost);
    const bool leased = std::holds_alternative<Concurrency>(rules.front().limit);
    if (leased) check.lease = Lease{.id = RandomBytes(), .ttl = seconds(60)};
    made.calls.push_back(CallOf(check));
    if (!leased) continue;
    check.demand.mode = Mode::kSettle;
    made.afterward.push_back(CallOf(check));
  }
  return made;
}

// A case in which each call has `checks` checks, each for a different user. The checks are in one
// pack, or each in its own command.
Case MakeGroups(int checks, bool packed) {
  const Limit bucket = TokenBucket{.rate = 1'000'000, .period = seconds(1), .burst = 1'000'000};
  Case made{.script = std::string(redis::kCheckScript.text), .commands = packed ? 1 : checks};
  for (int user = 0; user < kUsers; ++user) {
    std::vector<CounterSpec> specs;
    for (int i = 0; i < checks; ++i) {
      specs.push_back(
          {fmt::format("sluice:{{groups/user/user={}}}:b", (user + i * 13) % kUsers), bucket});
    }
    redis::ScriptCall call;
    std::string commands;
    std::vector<std::unique_ptr<BlockingCheck>> packs;
    for (const CounterSpec& spec : specs) {
      packs.push_back(std::make_unique<BlockingCheck>(&spec));
      packs.back()->counters[0].limit = &specs[0].limit;
      call.Add(*packs.back(), 1);
      if (!packed) commands += CallOf(*packs.back());
    }
    if (packed) commands = CommandOf({"EVALSHA", redis::kCheckScript.sha1}, call.Arguments());
    made.calls.push_back(commands);
  }
  return made;
}

Cases MakeCases() {
  const TokenBucket bucket{.rate = 1'000'000, .period = seconds(1), .burst = 1'000'000};
  Cases cases;
  const auto add = [&](const char* name, const std::vector<Rule>& rules, std::int64_t cost = 1) {
    cases.emplace(name, Make(name, rules, cost));
  };
  add("token_bucket", {{"user", bucket}});
  add("token_bucket, denied",
      {{"user", TokenBucket{.rate = 1, .period = seconds(60), .burst = 1}}});
  add("fixed_window", {{"user", FixedWindow{.limit = 1'000'000'000, .window = seconds(60)}}});
  add("sliding_window", {{"user", SlidingWindow{.limit = 1'000'000'000, .window = seconds(60)}}});
  add("leaky_bucket",
      {{"user", LeakyBucket{.rate = 1'000'000, .period = seconds(1), .queue = 1'000'000}}});
  add("two rules", {{"user", bucket}, {"site", bucket, true}});
  add("two limits",
      {{"user", bucket}, {"user", FixedWindow{.limit = 1'000'000'000, .window = seconds(60)}}});
  add("sliding_log", {{"user", SlidingLog{.limit = 10'000, .window = seconds(60)}}});
  add("concurrency", {{"user", Concurrency{.limit = 10, .ttl = seconds(60)}}});
  cases.emplace("a pack of 32", MakeGroups(32, /*packed=*/true));
  return cases;
}

// A TCP connection. A call waits for all of its replies before the next one is sent.
class Caller {
 public:
  explicit Caller(const RedisServer& server)
      : redis_(redisConnect("127.0.0.1", server.port())), connection_(server.Connect()) {
    Require(redis_ != nullptr && redis_->err == 0, "cannot connect");
    clock_getcpuclockid(server.pid(), &clock_);
  }
  ~Caller() { redisFree(redis_); }

  void Load(std::string_view script) { connection_.Text({"SCRIPT", "LOAD", std::string(script)}); }

  void Call(const std::string& commands, int replies) {
    redisAppendFormattedCommand(redis_, commands.data(), commands.size());
    for (int i = 0; i < replies; ++i) {
      void* reply = nullptr;
      Require(redisGetReply(redis_, &reply) == REDIS_OK, "no reply");
      const auto& got = *static_cast<redisReply*>(reply);
      Require(got.type != REDIS_REPLY_ERROR, got.str == nullptr ? "" : got.str);
      freeReplyObject(reply);
    }
  }

  struct Cost {
    double cpu = 0;     // Redis' CPU per call, in µs
    double script = 0;  // time of one EVALSHA in Redis, in µs
    double median = 0;  // µs of a round trip
  };
  Cost Measure(const Case& asked, int calls) {
    connection_.Text({"CONFIG", "RESETSTAT"});
    std::vector<double> times;
    Cost cost;
    double spent = 0;
    for (int done = 0; done < calls;) {
      const double before = MicrosecondsOf(clock_);
      for (int i = 0; i < kUsers && done < calls; ++i, ++done) {
        const double start = MicrosecondsOf(CLOCK_MONOTONIC);
        // A stride of 379 keeps successive keys apart. It has no factor in common with kUsers, so
        // no call is repeated before each has been made once.
        Call(asked.calls[(static_cast<std::size_t>(done) * 379) % asked.calls.size()],
             asked.commands);
        times.push_back(MicrosecondsOf(CLOCK_MONOTONIC) - start);
      }
      spent += MicrosecondsOf(clock_) - before;
      if (cost.script == 0) cost.script = UsecPerCall();
      for (const std::string& command : asked.afterward) Call(command, 1);
    }
    std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
    cost.median = times[static_cast<std::size_t>(calls / 2)];
    cost.cpu = spent / calls;
    return cost;
  }

 private:
  double UsecPerCall() {
    const std::string stats = connection_.Text({"INFO", "commandstats"});
    const auto at = stats.find("usec_per_call=", stats.find("cmdstat_evalsha:"));
    return std::stod(stats.substr(at + 14));
  }

  redisContext* const redis_;
  RedisConnection connection_;
  clockid_t clock_{};
};

// The median and its 95 % confidence interval. Computed from ranks, because other work on the
// machine disturbs a few pairs a lot.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;

  explicit Estimate(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto n = static_cast<double>(values.size());
    const auto at = [&](double rank) {
      return values[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))];
    };
    median = (at(std::floor((n - 1) / 2)) + at(std::ceil((n - 1) / 2))) / 2;
    low = at(std::floor((n - 1.96 * std::sqrt(n)) / 2));
    high = at(std::ceil((n + 1.96 * std::sqrt(n)) / 2) - 1);
  }
};

// Prints the costs of `reference` and of `tried`, and the ratio of `tried` to `reference`.
void Compare(Caller& caller, const std::string& name, const Case& reference, const Case& tried,
             int pairs, int calls) {
  caller.Measure(reference, calls);
  caller.Measure(tried, calls);
  std::vector<double> reference_cpu, cpu, ratios, reference_script, script, waits, reference_waits;
  for (int pair = 0; pair < pairs; ++pair) {
    Caller::Cost first = caller.Measure(pair % 2 == 0 ? reference : tried, calls);
    Caller::Cost second = caller.Measure(pair % 2 == 0 ? tried : reference, calls);
    if (pair % 2 == 1) std::swap(first, second);
    reference_cpu.push_back(first.cpu);
    cpu.push_back(second.cpu);
    ratios.push_back(second.cpu / first.cpu);
    reference_script.push_back(first.script);
    script.push_back(second.script);
    reference_waits.push_back(first.median);
    waits.push_back(second.median);
  }
  const auto print = [](const std::vector<double>& before, const std::vector<double>& now) {
    std::printf("%9.1f %7.1f", Estimate(before).median, Estimate(now).median);
  };
  const Estimate ratio(ratios);
  std::printf("%-38s", name.c_str());
  print(reference_cpu, cpu);
  print(reference_script, script);
  print(reference_waits, waits);
  std::printf("   %.3f  (%.3f to %.3f)\n", ratio.median, ratio.low, ratio.high);
  std::fflush(stdout);
}

void Write(std::ostream& out, std::string_view text) {
  out << text.size() << '\n';
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string Read(std::istream& in) {
  std::size_t size = 0;
  in >> size;
  in.get();
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  return text;
}

void WriteAll(std::ostream& out, const std::vector<std::string>& texts) {
  Write(out, std::to_string(texts.size()));
  for (const std::string& text : texts) Write(out, text);
}

std::vector<std::string> ReadAll(std::istream& in) {
  std::vector<std::string> texts(std::stoul(Read(in)));
  for (std::string& text : texts) text = Read(in);
  return texts;
}

void Record(const char* file, const Cases& cases) {
  std::ofstream out(file, std::ios::binary);
  for (const auto& [name, recorded] : cases) {
    Write(out, name);
    Write(out, recorded.script);
    WriteAll(out, recorded.calls);
    WriteAll(out, recorded.afterward);
  }
}

Cases ReadRecord(const char* file) {
  std::ifstream in(file, std::ios::binary);
  Cases cases;
  while (in.peek() != EOF) {
    const std::string name = Read(in);
    Case& read = cases[name];
    read.script = Read(in);
    read.calls = ReadAll(in);
    read.afterward = ReadAll(in);
  }
  return cases;
}

int Main(int argc, char** argv) {
  int pairs = 60;
  int calls = 500;
  const char* versus = nullptr;
  std::string only;
  Cases cases = MakeCases();
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--pairs") pairs = std::stoi(argv[i + 1]);
    if (flag == "--calls") calls = std::stoi(argv[i + 1]);
    if (flag == "--versus") versus = argv[i + 1];
    if (flag == "--case") only = argv[i + 1];
    if (flag == "--record") {
      Record(argv[i + 1], cases);
      return 0;
    }
  }

  if (!only.empty()) std::erase_if(cases, [&](const auto& it) { return it.first != only; });

  RedisServer server({.tcp = true});
  Caller caller(server);
  caller.Load(redis::kCheckScript.text);
  caller.Load(kTutorial);
  Case tutorial{.script = std::string(kTutorial)};
  const std::string sha = server.Connect().Text({"SCRIPT", "LOAD", std::string(kTutorial)});
  for (int user = 0; user < kUsers; ++user) {
    const std::string key = fmt::format("sluice:{{tutorial/user/user={}}}:incrby", user);
    tutorial.calls.push_back(CommandOf({"EVALSHA", sha, "1", key, "1", "60"}));
  }

  std::printf("%-38s%17s%17s%17s   %s\n", "A / B (us: first B, then A)", "Redis' CPU",
              "in the script", "p50", "ratio of the CPU");
  for (const auto& [name, mine] : cases) {
    Compare(caller, name + " / INCRBY and EXPIRE", tutorial, mine, pairs, calls);
  }
  for (const int checks : {2, 3, 4, 5, 6, 8}) {
    if (!only.empty()) break;
    Compare(caller, fmt::format("{} calls at once / a pack of {}", checks, checks),
            MakeGroups(checks, true), MakeGroups(checks, false), pairs, calls);
  }
  if (versus == nullptr) return 0;
  const Cases before = ReadRecord(versus);
  for (const auto& [name, mine] : cases) {
    const auto old = before.find(name);
    if (old == before.end()) continue;
    caller.Load(old->second.script);
    server.Connect().Text({"FLUSHALL"});
    Compare(caller, name + " / before", old->second, mine, pairs, calls);
  }
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::Main(argc, argv); }
