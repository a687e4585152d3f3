// What gRPC is given as the tag of an operation on a completion queue, and what a thread of the
// queue calls when the operation is over. One operation at a time.
//
// Arm on any thread, the rest on the queue's: they see all that was done before Arm.
#pragma once

#include <atomic>
#include <cassert>

namespace sluice {

class QueueEvent {
 public:
  QueueEvent() = default;
  QueueEvent(const QueueEvent&) = delete;
  QueueEvent& operator=(const QueueEvent&) = delete;

  // The tag for one operation. Once gRPC has it, the event may already be happening.
  void* Arm() {
    assert(!armed_.load(std::memory_order_relaxed));
    armed_.store(true, std::memory_order_release);
    return this;
  }

  // For a thread of the queue, with what the queue gave it.
  static void Happen(void* tag, bool ok) {
    auto& event = *static_cast<QueueEvent*>(tag);
    [[maybe_unused]] const bool armed = event.armed_.load(std::memory_order_acquire);
    assert(armed);
    event.armed_.store(false, std::memory_order_relaxed);
    event.OnEvent(ok);
  }

 protected:
  ~QueueEvent() = default;

 private:
  // `ok` is gRPC's: what it means depends on the operation.
  virtual void OnEvent(bool ok) = 0;

  std::atomic<bool> armed_ = false;
};

// An event that is a method of the object it happens to.
template <typename Subject, void (Subject::*kMethod)(bool ok)>
class EventOf final : public QueueEvent {
 public:
  explicit EventOf(Subject& subject) : subject_(subject) {}

 private:
  void OnEvent(bool ok) override { (subject_.*kMethod)(ok); }

  Subject& subject_;
};

}  // namespace sluice
