#include "replay/suggestion.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "match/counter_key.h"
#include "replay/replay.h"

namespace sluice::replay {
namespace {

// If two factors differ by less than this ratio, factors between them are not tried.
constexpr double kPrecision = 1.01;
constexpr double kStep = 8;

// Multiplies the amounts of limits by a factor, and rounds up. If the count of a rate becomes small
// and `may_lengthen` is true, the period of the rate becomes a minute, an hour or a day.
class Scaler final : public Parameters {
 public:
  Scaler(double factor, bool may_lengthen) : factor_(factor), may_lengthen_(may_lengthen) {}

  void Number(std::string_view key, std::int64_t& value, const Range& range,
              std::optional<std::int64_t>) override {
    if (key != "segments") value = Times(factor_, value, range.least, range.most);
  }
  void Rate(std::string_view, std::int64_t& count, Duration& period, std::int64_t most) override {
    constexpr std::int64_t kSmall = 100;
    double factor = factor_;
    for (const Duration longer :
         {Duration(std::chrono::minutes(1)), Duration(std::chrono::hours(1)),
          Duration(std::chrono::days(1))}) {
      const bool is_small = static_cast<double>(count) * factor < kSmall;
      if (!may_lengthen_ || !is_small || longer <= period) continue;
      factor *= static_cast<double>(longer / period);
      period = longer;
    }
    count = Times(factor, count, 1, most);
  }
  void Length(std::string_view, Duration&, std::optional<Duration>) override {}
  void LengthOrMonth(std::string_view, Duration&, bool&) override {}
  void Percent(std::string_view, std::int64_t&, const Range&, std::int64_t) override {}
  // The bounds of a limit that follows the load are not scaled.
  void Group(std::string_view, bool&, const std::function<void(Parameters&)>&) override {}
  void UtcOffset(std::string_view, Duration&) override {}

 private:
  void Word(std::string_view, std::size_t&, std::size_t,
            const std::vector<std::string_view>&) override {}

  static std::int64_t Times(double factor, std::int64_t value, std::int64_t least,
                            std::int64_t most) {
    const double product = std::ceil(static_cast<double>(value) * factor);
    return product >= static_cast<double>(most)
               ? most
               : std::max(least, static_cast<std::int64_t>(product));
  }

  const double factor_;
  const bool may_lengthen_;
};

}  // namespace

bool Suggestion::Group::Has(const RuleLimit& limit, int its_owner) const {
  return its_owner == owner && CounterTag(limit) == tag;
}

Suggestion::Suggestion(Domain domain, double share) : domain_(std::move(domain)), share_(share) {
  for (std::size_t i = 0; i < domain_.rules.size(); ++i) AddGroups(i);
}

void Suggestion::AddGroups(std::size_t rule) {
  ForEachLimits(domain_.rules[rule], [&](const Limits& limits, int owner) {
    for (const RuleLimit& limit : limits.limits) {
      const Group group{
          .rule = rule, .owner = owner, .tag = CounterTag(limit), .name = domain_.rules[rule].name};
      const bool is_known = std::ranges::any_of(groups_, [&](const Group& it) {
        return it.rule == rule && it.owner == owner && it.tag == group.tag;
      });
      if (!is_known && !TakesLeases(limit.limit)) groups_.push_back(group);
    }
  });
}

// The limits of a group as a shadow rule, which counts and decides independently. The original rule
// also stays, but without limits: it still blocks and exempts.
Rule Suggestion::RuleFor(const Group& group) const {
  Rule alone = domain_.rules[group.rule];
  ForEachLimits(alone, [&](Limits& limits, int owner) {
    std::erase_if(limits.limits, [&](const RuleLimit& it) { return !group.Has(it, owner); });
    limits.effect = Limits::Effect::kCount;
  });
  Scale(alone, group, group.trial);
  alone.name += fmt::format("#{}", &group - groups_.data());
  alone.shadow = true;
  alone.missing = OnMissing::kSkip;
  return alone;
}

void Suggestion::Scale(Rule& rule, const Group& group, double factor) const {
  if (factor == 1) return;
  std::size_t count = 0;  // of the original rule's limits
  ForEachLimits(domain_.rules[group.rule],
                [&](const Limits& limits, int) { count += limits.limits.size(); });
  Scaler scaler(factor, /*may_lengthen=*/count == 1);
  ForEachLimits(rule, [&](Limits& limits, int owner) {
    for (RuleLimit& it : limits.limits) {
      if (group.Has(it, owner)) Describe(it.limit, scaler);
    }
  });
}

bool Suggestion::SameLimits(const Group& group, double a, double b) const {
  Rule one = domain_.rules[group.rule];
  Rule other = one;
  Scale(one, group, a);
  Scale(other, group, b);
  return one == other;
}

std::optional<Domain> Suggestion::NextTrial() {
  Domain trial = domain_;
  for (Rule& rule : trial.rules) {  // rules without limits still block and exempt
    ForEachLimits(rule, [](Limits& limits, int) { limits.limits.clear(); });
  }
  bool done = true;
  for (Group& group : groups_) {
    if (!first_ && !group.done) Choose(group);
    done &= group.done;
    trial.rules.push_back(RuleFor(group));
  }
  if (done) return std::nullopt;
  return trial;
}

// Limits are whole numbers, so there may be no untried limit between two factors.
void Suggestion::Choose(Group& group) const {
  if (group.enough == 0) {
    group.trial = group.too_low * kStep;
    group.done = group.trial > kMostFactor;
    return;
  }
  if (group.too_low == 0) {
    group.trial = group.enough / kStep;
    group.done = SameLimits(group, group.trial, group.enough);
    return;
  }
  while (group.enough / group.too_low > kPrecision) {
    group.trial = std::sqrt(group.too_low * group.enough);
    const bool known_as_enough = SameLimits(group, group.trial, group.enough);
    const bool known_as_too_low = SameLimits(group, group.trial, group.too_low);
    if (!known_as_enough && !known_as_too_low) return;
    (known_as_enough ? group.enough : group.too_low) = group.trial;
  }
  group.done = true;
}

void Suggestion::Learn(const VirtualServer& server) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const Tally& tally = server.rules()[domain_.rules.size() + i].all;
    if (first_) {
      group.now = group.then = tally;
      group.done = tally.checked == 0;
    }
    if (group.done && !first_) continue;
    if (tally.share() > share_) {
      group.too_low = group.trial;
    } else {
      group.enough = group.trial;
      group.then = tally;
    }
  }
  first_ = false;
}

Domain Suggestion::Suggested() const {
  Domain suggested = domain_;
  for (const Group& group : groups_) {
    Scale(suggested.rules[group.rule], group, group.factor());
  }
  return suggested;
}

}  // namespace sluice::replay
