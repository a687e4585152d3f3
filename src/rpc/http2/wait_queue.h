// Objects that wait, in the order in which they began to wait.
//
// Loop thread only.
#pragma once

#include <boost/intrusive/list.hpp>

#include "base/clock.h"

namespace sluice::rpc::http2 {

// The place of `owner` in a WaitQueue. The destructor removes it.
template <typename Owner>
class Waiting : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  explicit Waiting(Owner& the_owner) : owner(the_owner) {}

  Owner& owner;
  SteadyTime since{};
};

template <typename Owner>
class WaitQueue {
 public:
  // Moves an object that is in the queue to its end.
  void Add(Waiting<Owner>& waiting, SteadyTime now) {
    waiting.unlink();
    waiting.since = now;
    list_.push_back(waiting);
  }
  bool empty() const { return list_.empty(); }
  // When the first object was added, or SteadyTime::max() if the queue is empty.
  SteadyTime oldest() const { return empty() ? SteadyTime::max() : list_.front().since; }
  // REQUIRES: the queue is not empty.
  Owner& front() { return list_.front().owner; }

 private:
  boost::intrusive::list<Waiting<Owner>, boost::intrusive::constant_time_size<false>> list_;
};

}  // namespace sluice::rpc::http2
