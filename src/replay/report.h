// What a replay found, as reports show it. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "replay/replay.h"

namespace sluice::replay {

// The ten keys that a rule denied most, in descending order; keys with equal counts by name.
std::vector<std::pair<std::string, DeniedKey>> MostDenied(const VirtualServer::RuleTally& rule);

// The ids of the rules that checked something, in descending order of denials.
std::vector<std::size_t> RulesByDenials(const VirtualServer& server);

// The interval of a series with the most denials; size() if there are none.
std::size_t WorstInterval(const Timeline& timeline, std::size_t series);

// What readers of the numbers must know, one sentence each: lines that were left out, attributes
// that no line has, and what a replay cannot find out.
std::vector<std::string> NotesOn(const ReplayResult& result);

// The first and the last time of the requests that were decided.
std::string SpanText(const ReplayResult& result);
// "2026-11-25 15:16:49" in UTC.
std::string TimeText(Time at);
// "0.12 %".
std::string ShareText(const Tally& tally);
// "1,234,567".
std::string CountText(std::uint64_t count);

// A report with tables and charts, in one file that needs no other.
std::string HtmlReport(const ReplayResult& result, const std::string& title);

}  // namespace sluice::replay
