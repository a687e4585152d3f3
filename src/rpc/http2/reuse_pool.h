// Objects that are reused, so that they are seldom made. Trim destroys objects that recent load did
// not need.
//
// Loop thread only. Owns its objects, also those in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::rpc::http2 {

// The base class of objects in a ReusePool.
struct Reusable {
  std::size_t pool_place = 0;
};

template <typename T>
class ReusePool {
 public:
  // Returns a free object, or the one that `make` returns.
  template <typename Make>
  T& Take(const Make& make) {
    if (free_.empty()) {
      all_.push_back(make());
      all_.back()->pool_place = all_.size() - 1;
      return *all_.back();
    }
    T& object = *free_.back();
    free_.pop_back();
    least_free_ = std::min(least_free_, free_.size());
    return object;
  }

  void Return(T& object) { free_.push_back(&object); }

  // Destroys up to `max` objects that have been free all the time since the last Trim.
  void Trim(std::size_t max) {
    const std::size_t count = std::min(least_free_, max);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = free_[i]->pool_place;
      std::swap(all_[place], all_.back());
      all_[place]->pool_place = place;
      all_.pop_back();
    }
    free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(count));
    least_free_ = free_.size();
  }

  std::size_t size() const { return all_.size(); }
  std::size_t in_use() const { return all_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;        // the last one is used next
  std::size_t least_free_ = 0;  // since the last Trim
};

}  // namespace sluice::rpc::http2
