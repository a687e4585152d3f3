// HtmlReport: tables, and charts as SVG.
#include <algorithm>

#include <fmt/format.h>

#include "replay/report.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kCharts = 50;
constexpr double kWidth = 960;
constexpr double kHeight = 120;

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem "
    "0;"
    "text-align:right}td:first-child,th:first-child{text-align:left;word-break:break-all}"
    "svg{width:100%;height:auto;background:#f6f7f9}.c{fill:#9db8d9}.d{fill:#c0392b}"
    "small{color:#555}";

// Keys come from callers, so they are escaped.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return escaped;
}

std::string Bar(const char* color, double x, double width, double height) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", color, x,
      kHeight - height, width, height);
}

// Checks by interval, with the denied ones at the bottom.
std::string Chart(const Timeline& timeline, std::size_t series) {
  const auto& tallies = timeline.Of(series);
  std::uint64_t most = 1;
  for (const Tally& tally : tallies) most = std::max(most, tally.checked);
  const double width = kWidth / static_cast<double>(std::max<std::size_t>(1, timeline.size()));
  const double scale = kHeight / static_cast<double>(most);
  std::string html = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">", kWidth, kHeight);
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    const Tally& tally = tallies[i];
    const auto x = width * static_cast<double>(i);
    html +=
        fmt::format("<g><title>{}: {} checked, {} denied</title>", TimeText(timeline.StartOf(i)),
                    CountText(tally.checked), CountText(tally.denied));
    html += Bar("c", x, width * 0.9, scale * static_cast<double>(tally.checked)) +
            Bar("d", x, width * 0.9, scale * static_cast<double>(tally.denied)) + "</g>";
  }
  return html +
         fmt::format("</svg><small>from {} UTC, {} s per bar, highest bar: {}; red: denied</small>",
                     TimeText(timeline.StartOf(0)), timeline.length().count(), CountText(most));
}

std::string Row(const std::vector<std::string>& cells) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += "<td>" + Escaped(cell);
  return html + "\n";
}

std::string RulesTable(const VirtualServer& server) {
  std::string html = "<table><tr><th>rule<th>checked<th>denied<th>share<th>skipped\n";
  for (const std::size_t id : RulesByDenials(server)) {
    const auto& rule = server.rules()[id];
    const Rule& its = server.index().rules()[id].rule;
    html += Row({its.name + (its.shadow ? " (shadow)" : ""), CountText(rule.all.checked),
                 CountText(rule.all.denied), ShareText(rule.all), CountText(rule.skipped)});
  }
  return html + "</table>\n";
}

std::string KeysTable(const VirtualServer::RuleTally& rule) {
  if (rule.denied_keys.empty()) return "";
  std::string html = fmt::format(
      "<p>Denied keys: {}; those denied most:</p><table><tr><th>key<th>denied"
      "<th>first<th>last\n",
      CountText(rule.denied_keys.size()));
  for (const auto& [key, denied] : MostDenied(rule)) {
    html += Row({key, CountText(denied.denied), TimeText(denied.first), TimeText(denied.last)});
  }
  return html + "</table>\n";
}

std::string ServerHtml(const VirtualServer& server) {
  std::string html = "<p>" + Chart(server.timeline(), 0) + "</p>\n" + RulesTable(server);
  std::size_t charts = 0;
  for (const std::size_t id : RulesByDenials(server)) {
    if (++charts > kCharts) break;
    html += fmt::format("<h3>{}</h3>\n<p>{}</p>\n{}", Escaped(server.index().rules()[id].rule.name),
                        Chart(server.timeline(), 1 + id), KeysTable(server.rules()[id]));
  }
  return html;
}

}  // namespace

std::string HtmlReport(const ReplayResult& result, const std::string& title) {
  const Tally& all = result.server->all();
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>{1}</style>\n<h1>{0}</h1>\n<p>{2} requests, {3}: {4} denied ({5}), "
      "{6} matched no rule.</p>\n",
      Escaped(title), kStyle, CountText(all.checked), SpanText(result), CountText(all.denied),
      ShareText(all), CountText(result.server->unmatched()));
  if (result.against != nullptr) {
    html +=
        fmt::format("<p>Against the other rules: {} requests newly denied, {} newly allowed.</p>",
                    CountText(result.newly_denied), CountText(result.newly_allowed));
  }
  html += ServerHtml(*result.server);
  if (result.against != nullptr) {
    html += "<h2>The other rules</h2>\n" + ServerHtml(*result.against);
  }
  html += "<h2>Notes</h2>\n<ul>";
  for (const std::string& note : NotesOn(result)) html += "<li>" + Escaped(note) + "\n";
  return html + "</ul>\n</html>\n";
}

}  // namespace sluice::replay
