#include "replay/logged_second.h"

#include <algorithm>
#include <cstring>

namespace sluice::replay {
namespace {

constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

template <typename T>
void Append(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T Take(const char*& from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  from += sizeof value;
  return value;
}

}  // namespace

void LoggedSecond::Add(const TimeStamp& stamp, LinePlace place,
                       const std::vector<std::int64_t>& numbers,
                       std::span<const std::string_view> values) {
  entries_.push_back({stamp.at, stamp.whole_second, bytes_.size(), place});
  for (const std::int64_t number : numbers) Append(number, bytes_);
  for (const std::string_view value : values) {
    Append(value.data() == nullptr ? kAbsent : static_cast<std::uint32_t>(value.size()), bytes_);
    bytes_.append(value);
  }
}

void LoggedSecond::Order() {
  const auto whole = std::ranges::count(entries_, true, &Entry::whole_second);
  std::int64_t spread = 0;
  for (Entry& entry : entries_) {
    if (entry.whole_second) entry.at += Duration(1'000'000 * spread++ / whole);
  }
  if (!std::ranges::is_sorted(entries_, {}, &Entry::at)) {
    std::ranges::stable_sort(entries_, {}, &Entry::at);
  }
}

void LoggedSecond::Fill(const Entry& entry, const RequestShape& shape,
                        CheckRequest& request) const {
  const char* from = bytes_.data() + entry.data;
  request.Clear();
  request.domain = shape.domain;
  request.cost = Take<std::int64_t>(from);
  for (const std::string& name : shape.amounts) {
    request.amounts.push_back({name, Take<std::int64_t>(from)});
  }
  for (const std::string& name : shape.attributes) {
    const auto size = Take<std::uint32_t>(from);
    if (size == kAbsent) continue;
    request.attributes.push_back({name, {from, size}});
    from += size;
  }
}

}  // namespace sluice::replay
