// All requests of one second of a log. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "limiter/check_request.h"
#include "replay/time_stamp.h"

namespace sluice::replay {

// The shape of a log's requests: their amounts and attributes.
struct RequestShape {
  std::string domain;
  std::vector<std::string> attributes;
  std::vector<std::string> amounts;
};

// The place of a request in the logs.
struct LinePlace {
  std::uint32_t file = 0;
  std::uint64_t line = 0;
};

class LoggedSecond {
 public:
  struct Entry {
    Time at;
    bool whole_second = false;
    std::size_t data = 0;  // position of the request's numbers and values
    LinePlace place;
  };

  // `numbers` are the cost and the amounts. `values` are the values of the attributes; data() is
  // null for an attribute that the request lacks.
  void Add(const TimeStamp& stamp, LinePlace place, const std::vector<std::int64_t>& numbers,
           std::span<const std::string_view> values);

  // First, requests whose stamps are whole seconds are spread evenly over the second. Then all
  // requests are sorted by time; requests of equal time stay in the order in which they were added.
  void Order();

  // Replaces `request` by the request of `entry`. `request` is valid until this object changes.
  void Fill(const Entry& entry, const RequestShape& shape, CheckRequest& request) const;

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t memory() const { return bytes_.capacity() + entries_.capacity() * sizeof(Entry); }

 private:
  std::vector<Entry> entries_;
  std::string bytes_;
};

}  // namespace sluice::replay
