#include "tools/top_screen.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

constexpr std::size_t kMostServers = 8;
constexpr char kEscape = '\x1b', kBackspace = '\b', kDelete = '\x7f';

std::string RateText(double rate) {
  return rate == 0 || rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.1f}", rate);
}

std::string LatencyText(const LatencyState& latency) {
  if (!latency.p50) return "-";
  const auto text = [](double us) { return HumanDuration(Duration(static_cast<long>(us))); };
  return fmt::format("p50 {}  p99 {}", text(*latency.p50), text(*latency.p99));
}

std::string NameOf(const RuleState& rule) {
  const std::string domain = rule.domain.empty() ? "(unknown domain)" : LogText(rule.domain);
  return fmt::format("{}/{}{}", domain, rule.rule.empty() ? "(no rule)" : LogText(rule.rule),
                     rule.shadow ? " (shadow)" : "");
}

std::string StoreText(const v1::WatchedStore& store) {
  if (!store.redis()) return "embedded store";
  std::string text = fmt::format("Redis {}/{}", store.ready(), store.connections());
  if (store.breakers_open() > 0) text += "  BREAKER OPEN";
  if (store.waiting() > 0) text += fmt::format("  {} waiting", store.waiting());
  if (store.failures() > 0) text += fmt::format("  {} FAILED", store.failures());
  return text;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<RuleState> ShownRules(const FleetState& fleet, const TopView& view) {
  std::vector<RuleState> rules;
  std::copy_if(fleet.rules.begin(), fleet.rules.end(), std::back_inserter(rules),
               [&](const RuleState& it) { return Contains(NameOf(it), view.filter); });
  const auto before = [order = view.order](const RuleState& a, const RuleState& b) {
    if (order == TopView::Order::kName) return NameOf(a) < NameOf(b);
    if (order == TopView::Order::kDenied && a.rate.denied != b.rate.denied) {
      return a.rate.denied > b.rate.denied;
    }
    return a.rate.all() > b.rate.all();
  };
  std::stable_sort(rules.begin(), rules.end(), before);
  return rules;
}

std::string RuleLine(const RuleState& rule) {
  const auto by = [&](v1::Source source) { return RateText(rule.by_source[source].all()); };
  return fmt::format("{:<26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}", NameOf(rule),
                     RateText(rule.rate.allowed), RateText(rule.rate.denied), by(v1::SOURCE_STORE),
                     by(v1::SOURCE_DENY_CACHE), by(v1::SOURCE_FALLBACK), by(v1::SOURCE_RULE));
}

std::string ServerLine(const ServerState& server) {
  if (!server.error.empty()) {
    return fmt::format("{:<22} DOWN  {}", server.name, LogText(server.error));
  }
  if (!server.answers) return fmt::format("{:<22} no answer yet", server.name);
  return fmt::format(
      "{:<22} {:>8} {:>8}  {:<22}  {}{}", server.name, RateText(server.rate.allowed),
      RateText(server.rate.denied), LatencyText(server.checks), StoreText(server.store),
      server.store.redis() ? fmt::format("  fleet of {}", server.fleet_servers) : "");
}

// The values of a key, or the beginning of its digest if the server does not show keys.
std::string SubjectText(const KeyState& key) {
  return key.key.empty() ? "#" + LogText(key.digest.substr(0, 12)) : LogText(key.subject);
}

std::string LimitName(const KeyState& key) {
  return fmt::format("{}/{}[{}]", LogText(key.domain), LogText(key.rule), key.limit);
}

std::string KeyLine(const KeyState& key) {
  return fmt::format("{:<26} {:>8} {:>8}  {}", LimitName(key), key.count,
                     key.error == 0 ? "" : std::to_string(key.error), SubjectText(key));
}

std::string TotalsLine(const FleetState& fleet) {
  return fmt::format("{} server{}  checks {}/s  {}  store {}", fleet.servers.size(),
                     fleet.servers.size() == 1 ? "" : "s", RateText(fleet.checks_per_second),
                     LatencyText(fleet.checks), LatencyText(fleet.store));
}

// Servers that cannot be reached come first, so that they are shown even if
// not all servers fit.
std::vector<std::string> ServerLines(const FleetState& fleet) {
  std::vector<ServerState> servers = fleet.servers;
  std::stable_partition(servers.begin(), servers.end(),
                        [](const auto& it) { return !it.error.empty(); });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(servers.size(), kMostServers); ++i) {
    lines.push_back(ServerLine(servers[i]));
  }
  if (servers.size() > kMostServers) {
    lines.push_back(fmt::format("and {} more", servers.size() - kMostServers));
  }
  return lines;
}

std::vector<std::string> KeyLines(const FleetState& fleet, const TopView& view) {
  std::vector<std::string> lines;
  for (const KeyState& key : view.keys == TopView::Keys::kDenied ? fleet.denied : fleet.used) {
    const bool matches =
        Contains(LimitName(key), view.filter) || Contains(SubjectText(key), view.filter);
    if (matches) lines.push_back(KeyLine(key));
  }
  return lines;
}

std::string HelpLine(const TopView& view) {
  if (view.typing)
    return fmt::format("filter: {}_  (Enter keeps the filter, Esc removes it)",
                       LogText(view.filter));
  const std::string filter =
      view.filter.empty() ? "" : fmt::format("filter: {}  ", LogText(view.filter));
  return fmt::format("{}d denied  c checks  n name  k keys  / filter  p {}  q quit", filter,
                     view.stopped ? "go on" : "pause");
}

}  // namespace

void TopView::Press(char key) {
  if (typing) {
    if (key == '\n' || key == '\r' || key == kEscape) typing = false;
    if (key == kEscape) filter.clear();
    if ((key == kBackspace || key == kDelete) && !filter.empty()) filter.pop_back();
    if (key >= ' ' && key != kDelete) filter += key;
    return;
  }
  if (key == 'd') order = Order::kDenied;
  if (key == 'c') order = Order::kChecks;
  if (key == 'n') order = Order::kName;
  if (key == 'k') keys = keys == Keys::kDenied ? Keys::kUsed : Keys::kDenied;
  if (key == 'p') stopped = !stopped;
  if (key == '/') typing = true;
  if (key == 'q') ended = true;
}

// Rules and keys share the lines below the servers. Each of the two gets half of these lines, and
// also the lines that the other does not need.
std::string TopScreen(const FleetState& fleet, const TopView& view, std::size_t rows,
                      std::size_t columns) {
  std::vector<std::string> lines = {TotalsLine(fleet)};
  for (std::string& line : ServerLines(fleet)) lines.push_back(std::move(line));
  const std::vector<RuleState> rules = ShownRules(fleet, view);
  const std::vector<std::string> keys = KeyLines(fleet, view);
  const std::size_t fixed = lines.size() + 5;  // two titles, two empty lines, the help
  const std::size_t room = rows > fixed ? rows - fixed : 0;
  const std::size_t for_keys =
      std::min(keys.size(), std::max(room / 2, room - std::min(room, rules.size())));
  lines.insert(lines.end(),
               {"", fmt::format("{:<26} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}", "RULE, A SECOND",
                                "ALLOWED", "DENIED", "STORE", "CACHE", "FALLBACK", "RULE")});
  for (std::size_t i = 0; i < std::min(rules.size(), room - for_keys); ++i) {
    lines.push_back(RuleLine(rules[i]));
  }
  const bool denied = view.keys == TopView::Keys::kDenied;
  lines.insert(lines.end(),
               {"", fmt::format("{:<26} {:>8} {:>8}  KEY", denied ? "MOST DENIED" : "MOST USED",
                                "COUNT", "ERROR")});
  lines.insert(lines.end(), keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(for_keys));
  lines.resize(rows > 0 ? rows - 1 : 0);
  std::string screen;
  for (const std::string& line : lines) screen += line.substr(0, columns) + "\n";
  return screen + HelpLine(view).substr(0, columns);
}

std::string TopLines(const FleetState& fleet, const TopView& view, const std::string& time) {
  std::string text = fmt::format("{}  {}\n", time, TotalsLine(fleet));
  for (const ServerState& server : fleet.servers) {
    if (!server.error.empty()) text += fmt::format("{}    {}\n", time, ServerLine(server));
  }
  for (const RuleState& rule : ShownRules(fleet, view)) {
    text += fmt::format("{}    {}  allowed {}/s  denied {}/s\n", time, NameOf(rule),
                        RateText(rule.rate.allowed), RateText(rule.rate.denied));
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(fleet.denied.size(), 3); ++i) {
    const KeyState& key = fleet.denied[i];
    text += fmt::format("{}    most denied: {} {}  {} times\n", time, LimitName(key),
                        SubjectText(key), key.count);
  }
  return text;
}

}  // namespace sluice::tools
