// What a replay found, as reports show it. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "replay/replay.h"

namespace sluice::replay {

// The keys that a rule denied most often, at most ten, in descending order. Keys with equal counts
// are in the order of their names.
std::vector<std::pair<std::string, DeniedKey>> MostDenied(const VirtualServer::RuleTally& rule);

// The ids of the rules that checked or skipped a request, in descending order of denials.
std::vector<std::size_t> RulesByDenials(const VirtualServer& server);

// The interval in which `series` has the most denials; timeline.size() if it has none.
std::size_t WorstInterval(const Timeline& timeline, std::size_t series);

// What readers of the numbers must know, one sentence each, such as how many lines were left out,
// which attributes no line has, and that all counters are new when the log begins.
std::vector<std::string> NotesOn(const ReplayResult& result);

// The times of the first and the last decided request.
std::string SpanText(const ReplayResult& result);
// "2026-11-25 15:16:49" in UTC.
std::string TimeText(Time at);
// "0.12 %".
std::string ShareText(const Tally& tally);
// "1,234,567".
std::string CountText(std::uint64_t count);

// A report with tables and charts, as one HTML file that loads no other file.
std::string HtmlReport(const ReplayResult& result, const std::string& title);

}  // namespace sluice::replay
