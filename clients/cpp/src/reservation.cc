#include <algorithm>
#include <thread>
#include <utility>

#include "lease_keeper.h"
#include "sluice/client.h"

namespace sluice {
namespace {

// The amounts that a request takes, by name, with the defaults of the API.
Amounts HeldBy(const v1::CheckLimitRequest& request) {
  const uint64_t cost = request.has_cost() ? request.cost() : 1;
  Amounts held(request.amounts().begin(), request.amounts().end());
  held.emplace("requests", cost == 0 ? 0 : 1);
  held["cost"] = cost;
  return held;
}

}  // namespace

Reservation::Reservation(Client& client, LeaseKeeper& keeper, v1::CheckLimitRequest first)
    : client_(&client), keeper_(&keeper), first_(std::move(first)) {
  Take(first_);
}

Reservation::Reservation(Reservation&& other) noexcept
    : Work(other),
      client_(other.client_),
      keeper_(std::exchange(other.keeper_, nullptr)),
      first_(std::move(other.first_)),
      decision_(std::move(other.decision_)),
      parts_(std::move(other.parts_)),
      used_(std::move(other.used_)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  std::swap<Work>(*this, other);
  std::swap(client_, other.client_);
  std::swap(keeper_, other.keeper_);
  std::swap(first_, other.first_);
  std::swap(decision_, other.decision_);
  parts_.swap(other.parts_);
  used_.swap(other.used_);
  return *this;
}

void Reservation::Use(const Amounts& amounts) {
  for (const auto& [name, value] : amounts) used_[name] = value;
}

bool Reservation::Extend(const Amounts& amounts) {
  if (keeper_ == nullptr) return false;
  v1::CheckLimitRequest next = first_;
  next.clear_amounts();
  next.mutable_amounts()->insert(amounts.begin(), amounts.end());
  const auto cost = amounts.find("cost");
  next.set_cost(cost == amounts.end() ? 0 : cost->second);
  next.mutable_amounts()->erase("cost");
  if (next.cost() > 0) next.mutable_amounts()->insert({"requests", 0});
  return Take(next);
}

void Reservation::Settle(const Amounts& amounts) {
  if (keeper_ == nullptr) return;
  Use(amounts);
  Amounts left = used_;
  for (const Part& part : parts_) {
    Amounts share = left;
    if (&part != &parts_.back()) {  // at most what the part held; the last part gets the rest
      for (auto& [name, value] : share) {
        const auto held = part.held.find(name);
        value = held == part.held.end() ? 0 : std::min(value, held->second);
      }
    }
    for (auto& [name, value] : left) value -= share[name];
    keeper_->Settle(part.id, share, part.local, *this);
  }
  keeper_ = nullptr;
}

bool Reservation::Take(const v1::CheckLimitRequest& request) {
  decision_ = client_->Check(request);
  if (!decision_.allowed) return false;
  const v1::Lease& lease = decision_.response.lease();
  // Without a lease there is nothing to settle: no rule counts the request, or no server answered.
  if (!lease.id().empty() && keeper_ != nullptr) {
    keeper_->Add(lease.id(), lease.ttl());
    const bool local = decision_.response.source() == v1::SOURCE_FALLBACK;
    parts_.push_back({lease.id(), HeldBy(request), local});
  }
  std::this_thread::sleep_for(decision_.wait);
  return true;
}

}  // namespace sluice
