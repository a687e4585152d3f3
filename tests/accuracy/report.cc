#include "tests/accuracy/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "tests/support/require.h"

namespace sluice::accuracy {

namespace {

void Print(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

std::string RowOf(const std::string& name, const Judgement& judgement) {
  const std::string mistake = judgement.Mistake();
  return fmt::format("{:<20}{:>9}{:>10}{:>10} /{:>6}{:>6}{:>12}{:>10}{:>9.2f} %{}\n", name,
                     judgement.checks, judgement.admitted, judgement.promise.units,
                     judgement.promise.limit, judgement.promise.over, judgement.densest,
                     judgement.ideal, judgement.UnderPercent(),
                     mistake.empty() ? "" : "  WRONG: " + mistake);
}

void PrintHead(const std::string& title) {
  Print(fmt::format("\n{}\n{:<20}{:>9}{:>10}{:>18}{:>6}{:>12}{:>10}{:>11}\n", title, "", "checks",
                    "admitted", "worst / limit", "over", "any window", "ideal", "under"));
}

}  // namespace

void Report::Begin(const std::string& title) { PrintHead(title); }

void Report::Row(const std::string& subject, const Judgement& judgement) {
  Print(RowOf(subject, judgement));
  if (!judgement.Mistake().empty()) ++mistakes_;
  const auto sum = std::find_if(sums_.begin(), sums_.end(),
                                [&](const Sum& known) { return known.name == subject; });
  if (sum == sums_.end()) {
    sums_.push_back({subject, judgement});
  } else {
    sum->judgement.Add(judgement);
  }
}

void Report::Fail(const std::string& what) {
  Print(fmt::format("WRONG: {}\n", what));
  ++mistakes_;
}

bool Report::End() {
  PrintHead("all patterns");
  for (const Sum& sum : sums_) Print(RowOf(sum.name, sum.judgement));
  Print(mistakes_ == 0 ? "\nAll promises kept.\n" : "\nSomething is WRONG, see above.\n");
  return mistakes_ == 0;
}

Recording::Recording(const std::string& path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "w");
  test::Require(file_ != nullptr, "cannot write " + path);
  fmt::print(file_, "pattern,algorithm,key,cost,decided_at,wait,admitted\n");
}

Recording::~Recording() {
  if (file_) std::fclose(file_);
}

void Recording::Add(const std::string& pattern, const Subject& subject, const History& history) {
  if (!file_) return;
  for (const Outcome& outcome : history.outcomes) {
    fmt::print(file_, "{},{},{},{},{},{},{:d}\n", pattern, subject.name, outcome.key, outcome.cost,
               outcome.decided_at.time_since_epoch().count(), outcome.wait.count(),
               outcome.admitted);
  }
}

}  // namespace sluice::accuracy
