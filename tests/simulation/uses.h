// Records when callers used units of prefetched counters, no matter whether the store or a server
// decided. Verifies that callers never used more units than the limit allows. A bucket allows
// burst + rate * length in any interval, and a window allows its limit. A call was decided at some
// time between its sending and its answer.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/algorithm/limit.h"
#include "tests/simulation/deployment.h"
#include "tests/simulation/model.h"

namespace sluice::simulation {

class Uses {
 public:
  // On the clock of the Redis servers, as if it had never jumped.
  struct Interval {
    Time begin;
    Time end;
  };

  // Records a limit that a counter has in a version of the rules.
  void Allow(const std::string& counter, const Limit& limit);
  void Use(const std::string& counter, std::int64_t units, const Interval& within);

  // After a failover or a reset, counters have forgotten changes. The units of these changes may be
  // used again. Servers may also use grants that the counters have forgotten, until these grants
  // end.
  void TakeOver(const TrueCounters& before, const TrueCounters& after, Time now);

  // Redis' clock jumps. `redis` shows which units are out.
  void Jump(Duration by, const Deployment& redis, Time now);

  // At the end: the broken promises, each with the values found.
  std::vector<std::string> Judge(const Model& model) const;

 private:
  struct Units {
    std::int64_t units = 0;
    Interval within;
  };
  struct Account {
    Limit limit;  // with the highest values of all versions
    bool known = false;
    std::vector<Units> uses;
    std::vector<Units> extra;  // may be used in addition, in any interval that overlaps `within`
  };

  using Undone = Units;  // from the decision of the check to its undo

  struct Judged {
    const std::string& counter;
    const Account& account;
    std::vector<Undone> undone;
  };
  void JudgeBucket(const TokenBucket& limit, const Judged& judged,
                   std::vector<std::string>& broken) const;
  void JudgeWindows(const FixedWindow& limit, const Judged& judged,
                    std::vector<std::string>& broken) const;
  Duration Ahead(Time now) const;
  std::vector<Undone> UndoneOf(const Model& model, const std::string& counter) const;
  static Duration UnderWay(const Interval& interval, const std::vector<Undone>& undone);
  static std::int64_t GivenBack(const TokenBucket& limit, const Interval& interval,
                                const std::vector<Undone>& undone);
  static std::int64_t ExtraIn(const Account& account, const Interval& interval);

  // A time on the clock of the store.
  struct Moment {
    std::size_t epoch = 0;  // how often the clock has made a long jump back
    Time time;
    auto operator<=>(const Moment&) const = default;
  };
  // When the store decided. Empty if this time is not certain, or if the counter's time may have
  // stood still.
  std::optional<Moment> MomentOf(const Interval& within) const;

  struct ClockJump {
    Time at;
    Duration by;
  };

  std::map<std::string, Account> accounts_;
  std::vector<ClockJump> jumps_;
};

}  // namespace sluice::simulation
