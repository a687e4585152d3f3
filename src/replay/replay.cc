#include "replay/replay.h"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace sluice::replay {
namespace {

// Adds the attributes that the rules use.
void AddAttributes(const std::vector<Condition>& conditions, std::set<std::string>& names) {
  for (const Condition& condition : conditions) names.insert(condition.attribute);
}
void AddAttributes(const Domain& domain, std::set<std::string>& names) {
  if (!domain.colocate.empty()) names.insert(domain.colocate);
  for (const Rule& rule : domain.rules) {
    AddAttributes(rule.match, names);
    for (const Override& other : rule.overrides) AddAttributes(other.match, names);
    for (const KeyPart& part : rule.per) names.insert(part.attribute);
  }
}

Result<std::unique_ptr<VirtualServer>> MakeServer(Domain rules, std::size_t max_memory) {
  auto index = RuleIndex::Build({std::move(rules)}, {});
  if (!index) return index.error();
  return std::make_unique<VirtualServer>(std::move(*index), max_memory);
}

std::string FullAt(const RequestLog& log, LinePlace place, const VirtualServer& server) {
  return fmt::format("{}, line {}: the counters do not fit in --memory; there are {} already",
                     log.NameOf(place), place.line, server.counters());
}

void Compare(ReplayResult& result, std::size_t count) {
  if (result.against == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    const bool now = result.server->allowed()[i];
    const bool other = result.against->allowed()[i];
    if (other && !now) ++result.newly_denied;
    if (now && !other) ++result.newly_allowed;
  }
}

// Returns false if the counters do not fit in memory.
bool DecideSecond(const RequestLog& log, const LoggedSecond& second, ReplayResult& result) {
  const auto& entries = second.entries();
  if (result.first == Time()) result.first = entries.front().at;
  std::size_t counted = entries.size();
  for (VirtualServer* const server : {result.server.get(), result.against.get()}) {
    if (server == nullptr) continue;
    const auto full = server->Decide(second, log.shape());
    if (!full || *full >= counted) continue;
    counted = *full;
    result.stopped = FullAt(log, entries[*full].place, *server);
  }
  Compare(result, counted);
  if (counted > 0) result.last = entries[counted - 1].at;
  return result.stopped.empty();
}

}  // namespace

Result<ReplayResult> Replay(ReplayOptions options) {
  std::set<std::string> attributes;
  AddAttributes(options.rules, attributes);
  if (options.against) AddAttributes(*options.against, attributes);
  options.log.attributes = {attributes.begin(), attributes.end()};
  options.log.domain = options.rules.name;
  const std::size_t memory = options.max_memory / (options.against ? 2 : 1);
  auto server = MakeServer(std::move(options.rules), memory);
  if (!server) return server.error();
  ReplayResult result{.server = std::move(*server)};
  if (options.against) {
    auto against = MakeServer(std::move(*options.against), memory);
    if (!against) return against.error();
    result.against = std::move(*against);
  }
  auto log = RequestLog::Open(std::move(options.log));
  if (!log) return log.error();
  while (true) {
    const auto second = (*log)->Next();
    if (!second) result.stopped = second.error().message;
    if (!second || *second == nullptr) break;
    if (!DecideSecond(**log, **second, result)) break;
    options.on_progress(**log);
  }
  result.log = (*log)->facts();
  return result;
}

std::vector<std::string> RemoveConcurrency(Domain& domain) {
  std::vector<std::string> names;
  for (Rule& rule : domain.rules) {
    const auto takes_leases = [](const RuleLimit& it) { return TakesLeases(it.limit); };
    std::size_t removed = 0;
    ForEachLimits(
        rule, [&](Limits& limits, int) { removed += std::erase_if(limits.limits, takes_leases); });
    if (removed > 0) names.push_back(rule.name);
  }
  return names;
}

std::vector<std::string> MissingAmounts(const Domain& domain,
                                        const std::map<std::string, std::string>& fields) {
  std::set<std::string> names;
  const auto add = [&](const Limits& limits, int) {
    for (const RuleLimit& limit : limits.limits) {
      for (const CountedAmount& it : limit.counts) {
        if (!fields.contains(it.name)) names.insert(it.name);
      }
    }
  };
  for (const Rule& rule : domain.rules) ForEachLimits(rule, add);
  for (const auto own : {CountedAmount::kCost, CountedAmount::kRequests}) {
    names.erase(std::string(own));
  }
  return {names.begin(), names.end()};
}

}  // namespace sluice::replay
