// Measures the cost of a counter and of a check of each algorithm in Redis, for the table of
// docs/algorithms.md.
//
//   build/release/accuracy/algorithm_cost [--seconds 5]
//
// bytes    MEMORY USAGE of a counter and its key after one check. The counter is for a user whose
//          name has 36 bytes, as UUIDs have.
// most     the maximum MEMORY USAGE while as many checks as the limit allows are spread evenly over
//          a window
// script   mean run time of the script (INFO commandstats). One caller waits for each answer, so
//          every check is a script call of its own.
// alone    CPU of Redis' main thread (INFO cpu) per check in the same rounds. This includes parsing
//          the call and writing the answer.
// loaded   the same CPU per check, but with 400 checks in flight. These share script calls; the
//          last column is the mean number of checks in a call.
//
// Times are from the cheapest of five rounds, because other work on the machine only adds to them.
// The checks of "script" and "alone" use 2,000 counters, those of "loaded" use 5,000. Checks are
// admitted while the algorithm has room. Redis decides all of them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "load/generator.h"
#include "tests/accuracy/subject.h"
#include "tests/support/require.h"
#include "tests/system/fleet.h"

namespace sluice::accuracy {
namespace {

constexpr Size kSize{.limit = 100, .window = std::chrono::hours(1)};
// The memory is measured over a whole window, so the window is short.
constexpr Size kShort{.limit = 100, .window = std::chrono::seconds(2)};
constexpr int kUsers = 5'000;
constexpr int kRounds = 5;
constexpr int kChecksAlone = 2'000;  // in each round

v1::CheckLimitRequest RequestOf(const Subject& subject, int user) {
  return test::CheckOf(kDomain, subject.Rule(),
                       fmt::format("{:08x}-8a3c-4d1e-9b7f-5c2e6a90d148", user));
}

// The numbers of an INFO section by name. A number of one command has the name "command.field".
std::map<std::string, double> Info(test::RedisConnection& redis, const std::string& section) {
  std::map<std::string, double> numbers;
  std::istringstream lines(redis.Text({"INFO", section}));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, colon);
    std::istringstream fields(line.substr(colon + 1));
    for (std::string field; std::getline(fields, field, ',');) {
      const std::size_t equals = field.find('=');
      if (equals == std::string::npos) {
        numbers[name] = std::stod(field);
      } else {
        numbers[name + "." + field.substr(0, equals)] = std::stod(field.substr(equals + 1));
      }
    }
  }
  return numbers;
}

// The resources that Redis has used so far. Times in µs.
struct Spent {
  double calls = 0;  // of the script
  double script = 0;
  double cpu = 0;
};

Spent SpentBy(test::RedisConnection& redis) {
  auto cpu = Info(redis, "cpu");
  auto stats = Info(redis, "commandstats");
  return {.calls = stats["cmdstat_evalsha.calls"],
          .script = stats["cmdstat_evalsha.usec"],
          .cpu = 1e6 * (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"])};
}

struct Bytes {
  std::int64_t first = 0;
  std::int64_t most = 0;
};

// Measures one algorithm: the times with `subject`'s rule, the memory with `brief`'s rule.
class Measurement {
 public:
  Measurement(const Subject& subject, const Subject& brief)
      : subject_(subject),
        brief_(brief),
        fleet_({.rules = RulesOf({subject, brief}, DenyCache::kOff), .servers = 1}, &redis_),
        connection_(redis_.Connect()) {}

  Bytes Memory() {
    Bytes bytes;
    const SteadyTime start = SteadyNow();
    for (int i = 0; i < kShort.limit; ++i) {
      std::this_thread::sleep_until(start + i * Duration(kShort.window) / kShort.limit);
      Check(brief_, 0);
      const auto keys = connection_.Keys();
      test::Require(keys.size() == 1, "not one counter");
      const auto now = connection_.Integer({"MEMORY", "USAGE", keys[0], "SAMPLES", "0"});
      if (i == 0) bytes.first = now;
      bytes.most = std::max(bytes.most, now);
    }
    return bytes;
  }

  Spent Alone() {
    return Cheapest([&] {
      for (int i = 0; i < kChecksAlone; ++i) Check(subject_, 1 + i % kUsers);
      return kChecksAlone;
    });
  }

  Spent Loaded(Duration length) {
    v1::CheckLimitRequest request = RequestOf(subject_, 0);
    request.mutable_attributes()->erase("user");  // the plan varies the user
    const load::Plan plan{
        .target = {.address = Address::Parse(fleet_.server(0).grpc_address()).value()},
        .request = request.SerializeAsString(),
        .key_name = "user",
        .keys = kUsers,
        .in_flight = 400,
        .duration = length / kRounds};
    return Cheapest([&] {
      auto generator = load::Generator::Start(plan);
      test::Require(generator.has_value(), "no load");
      (*generator)->WaitUntil(SteadyNow() + 2 * length);
      const load::LoadStats stats = (*generator)->stats();
      test::Require(stats.failed == 0 && stats.sources[v1::SOURCE_STORE] == stats.answered(),
                    "not all decided by Redis");
      return stats.checks();
    });
  }

 private:
  void Check(const Subject& subject, int user) {
    const test::Answer answer = fleet_.Check(RequestOf(subject, user));
    test::Require(answer.status.ok(), answer.status.error_message());
  }

  // The cost of a check in the best of several rounds. `run` returns the number of its checks.
  template <typename Run>
  Spent Cheapest(Run run) {
    Spent cheapest;
    for (int round = 0; round < kRounds; ++round) {
      const Spent before = SpentBy(connection_);
      const auto checks = static_cast<double>(run());
      const Spent now = SpentBy(connection_);
      const Spent spent{.calls = (now.calls - before.calls) / checks,
                        .script = (now.script - before.script) / checks,
                        .cpu = (now.cpu - before.cpu) / checks};
      if (round == 0 || spent.cpu < cheapest.cpu) cheapest = spent;
    }
    return cheapest;
  }

  const Subject subject_;
  const Subject brief_;
  test::RedisServer redis_;
  test::Fleet fleet_;
  test::RedisConnection connection_;
};

// Whether the algorithm has the same counter and script as another one.
bool IsVariant(const std::string& name) {
  return name.find('-') != std::string::npos && name != "token_bucket-warmup";
}

int Main(int argc, char** argv) {
  const bool seconds_given = argc == 3 && std::string(argv[1]) == "--seconds";
  test::Require(argc == 1 || seconds_given, "usage: algorithm_cost [--seconds 5]");
  const std::chrono::seconds length(seconds_given ? std::stoi(argv[2]) : 5);
  fmt::print("{:<20}{:>8}{:>8}{:>11}{:>10}{:>11}{:>15}\n", "", "bytes", "most", "script us",
             "alone us", "loaded us", "checks a call");
  const std::vector<Subject> subjects = Subjects(kSize);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (IsVariant(subjects[i].name)) continue;
    Measurement measurement(subjects[i], Subjects(kShort)[i]);
    const Bytes bytes = measurement.Memory();
    const Spent alone = measurement.Alone();
    const Spent loaded = measurement.Loaded(length);
    fmt::print("{:<20}{:>8}{:>8}{:>11.1f}{:>10.1f}{:>11.1f}{:>15.1f}\n", subjects[i].name,
               bytes.first, bytes.most, alone.script, alone.cpu, loaded.cpu, 1 / loaded.calls);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace sluice::accuracy

int main(int argc, char** argv) { return sluice::accuracy::Main(argc, argv); }
