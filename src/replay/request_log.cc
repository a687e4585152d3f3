#include "replay/request_log.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace sluice::replay {
namespace {

using std::chrono::floor, std::chrono::seconds;

// The position of the time in a line's values; the cost, the amounts and the attributes follow.
constexpr std::size_t kTime = 0;

bool ParseUnits(std::string_view text, std::int64_t& units) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, units);
  return error == std::errc() && parsed == end && units >= 0 && units <= kMaxCost;
}

}  // namespace

Result<std::unique_ptr<RequestLog>> RequestLog::Open(Options options) {
  std::unique_ptr<RequestLog> log(new RequestLog(std::move(options)));
  if (auto opened = log->OpenAll(); !opened) return opened.error();
  return log;
}

Result<void> RequestLog::OpenAll() {
  const LogMapping& mapping = options_.mapping;
  shape_ = {options_.domain, options_.attributes, {}};
  wanted_.push_back({"--time", mapping.time.value_or("time"), true});
  wanted_.push_back({"--cost", mapping.cost.value_or(""), mapping.cost.has_value()});
  for (const auto& [name, field] : mapping.amounts) {
    shape_.amounts.push_back(name);
    wanted_.push_back({"--amount " + name, field, true});
  }
  for (const std::string& name : shape_.attributes) {
    const auto given = mapping.attributes.find(name);
    const bool is_given = given != mapping.attributes.end();
    wanted_.push_back({"--attribute " + name, is_given ? given->second : name, is_given});
    facts_.attributes.push_back({name});
  }
  values_.resize(wanted_.size());
  numbers_.resize(1 + shape_.amounts.size());
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const Wanted& wanted = wanted_[kTime + 1 + i];
    facts_.numbers.push_back({.name = wanted.must_exist ? wanted.name : ""});
  }
  for (const std::string& path : options_.paths) {
    auto file = LogFile::Open(path);
    if (!file) return file.error();
    auto parser = MakeLineParser(**file, wanted_);
    if (!parser) return parser.error();
    sources_.push_back({.file = std::move(*file), .parser = std::move(*parser)});
  }
  return {};
}

Result<LoggedSecond*> RequestLog::Next() {
  if (auto read = ReadOn(); !read) return read.error();
  if (seconds_.empty()) return nullptr;
  current_ = std::move(seconds_.begin()->second);
  seconds_.erase(seconds_.begin());
  current_.Order();
  return &current_;
}

Result<void> RequestLog::ReadOn() {
  const auto is_complete = [this] {
    return !seconds_.empty() && seconds_.begin()->first + seconds(1) <= complete_;
  };
  while (!is_complete()) {
    Source* const source = Laggard();
    if (source == nullptr) {
      complete_ = Time::max();
      return {};
    }
    Read(*source);
    std::size_t memory = 0;
    for (const auto& [second, requests] : seconds_) memory += requests.memory();
    if (memory > options_.max_memory) {
      return Error{
          ErrorCode::kResourceExhausted,
          fmt::format("{}, line {}: the requests of {} seconds wait to be sorted and do not fit in "
                      "memory; give more --memory, or less --reorder",
                      source->file->name(), source->file->line_number(), seconds_.size())};
    }
  }
  return {};
}

// Returns the log whose newest time is the earliest, or null if all logs have ended. Updates
// complete_, which depends on this time.
RequestLog::Source* RequestLog::Laggard() {
  Source* laggard = nullptr;
  for (Source& source : sources_) {
    if (source.newest == Time::max()) continue;
    if (laggard == nullptr || source.newest < laggard->newest) laggard = &source;
  }
  if (laggard != nullptr && laggard->newest != Time::min()) {
    complete_ = std::max(complete_, laggard->newest - options_.reorder);
  }
  return laggard;
}

// Reads until the source's newest time is in another second, or until kMost lines were read.
void RequestLog::Read(Source& source) {
  constexpr int kMost = 100'000;
  const auto second = floor<seconds>(source.newest);
  for (int i = 0; i < kMost; ++i) {
    const auto line = source.file->Next();
    if (!line) {
      if (!source.file->fault().empty()) Fault(source, source.file->fault());
      source.newest = Time::max();
      return;
    }
    ++facts_.lines;
    const char* const fault =
        source.file->line_is_cut() ? "is longer than 1 MiB" : Take(source, *line);
    if (fault != nullptr) Fault(source, fault);
    if (source.newest != Time::min() && floor<seconds>(source.newest) != second) return;
  }
}

// Returns what is wrong with the line, or null.
const char* RequestLog::Take(Source& source, std::string_view line) {
  if (const char* const fault = source.parser->Parse(line, values_)) return fault;
  const auto stamp = ParseTimeStamp(values_[kTime]);
  if (!stamp) return "has no time in a known format";
  numbers_.assign(numbers_.size(), 0);
  numbers_[0] = 1;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const std::string_view units = values_[kTime + 1 + i];
    if (units.empty()) continue;
    ++facts_.numbers[i].present;
    if (!ParseUnits(units, numbers_[i])) {
      return "has a cost or an amount that is not a whole number from 0 to 2^53";
    }
  }
  const Time at = stamp->at;
  if (floor<seconds>(at) + seconds(1) <= floor<seconds>(complete_) && complete_ != Time::min()) {
    ++facts_.late;
    return "is late: see --reorder";
  }
  const auto attributes = std::span(values_).subspan(kTime + 1 + numbers_.size());
  const auto file = static_cast<std::uint32_t>(&source - sources_.data());
  seconds_[floor<seconds>(at)].Add(*stamp, {file, source.file->line_number()}, numbers_,
                                   attributes);
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    facts_.attributes[i].present += attributes[i].data() != nullptr ? 1 : 0;
  }
  ++facts_.requests;
  source.newest = std::max(source.newest, at);
  return nullptr;
}

void RequestLog::Fault(const Source& source, std::string_view what) {
  if (!what.starts_with("is late")) ++facts_.not_understood;
  if (facts_.faults.size() == LogFacts::kNamed) return;
  facts_.faults.push_back({source.file->name(), source.file->line_number(), std::string(what)});
}

std::string RequestLog::NameOf(LinePlace place) const { return sources_[place.file].file->name(); }

std::uint64_t RequestLog::bytes_read() const {
  std::uint64_t bytes = 0;
  for (const Source& source : sources_) bytes += source.file->bytes_read();
  return bytes;
}

std::uint64_t RequestLog::size() const {
  std::uint64_t bytes = 0;
  for (const Source& source : sources_) {
    if (source.file->size() == 0) return 0;
    bytes += source.file->size();
  }
  return bytes;
}

}  // namespace sluice::replay
