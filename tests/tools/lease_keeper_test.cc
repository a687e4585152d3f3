// A lease is renewed in time, changes of its state are reported once, and in the end it is
// released.
#include "tools/lease_keeper.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/client.h"
#include "client/duration.h"
#include "tests/tools/fake_server.h"

namespace sluice::tools {
namespace {

using sluice::test::FakeServer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using State = LeaseKeeper::State;
using testing::ElementsAre;

constexpr Duration kTtl = milliseconds(600);

v1::Lease MakeLease(Duration ttl) {
  v1::Lease lease;
  lease.set_id("a lease");
  *lease.mutable_ttl() = ToProto(ttl);
  return lease;
}

// A server that answers each renewal with the next result of a list, then repeats the last result.
class LeaseServer {
 public:
  explicit LeaseServer(std::vector<grpc::StatusCode> fates)
      : fates_(std::move(fates)),
        server_([](const auto&, auto&) { return grpc::Status::OK; },
                {.renew = [this](const auto& request,
                                 auto& response) { return Renew(request, response); },
                 .release =
                     [this](const auto& request) {
                       MutexLock lock(mutex_);
                       released_.push_back(request.lease_id());
                       changed_.NotifyAll();
                       return grpc::Status::OK;
                     }}) {}

  const Address& address() const { return server_.address(); }

  // From now on, renewals are answered only after a release.
  void HoldRenewals() {
    MutexLock lock(mutex_);
    held_ = true;
  }

  bool WaitForRenewals(std::size_t count) {
    MutexLock lock(mutex_);
    return changed_.WaitUntil(mutex_, SteadyNow() + seconds(20),
                              [&]() SLUICE_REQUIRES(mutex_) { return renewals_.size() >= count; });
  }

  std::vector<SteadyTime> renewals() const {
    MutexLock lock(mutex_);
    return renewals_;
  }

  std::vector<std::string> released() const {
    MutexLock lock(mutex_);
    return released_;
  }

 private:
  grpc::Status Renew(const v1::RenewLeaseRequest& request, v1::RenewLeaseResponse& response) {
    MutexLock lock(mutex_);
    renewals_.push_back(SteadyNow());
    changed_.NotifyAll();
    changed_.WaitUntil(mutex_, SteadyNow() + seconds(20),
                       [this]() SLUICE_REQUIRES(mutex_) { return !held_ || !released_.empty(); });
    if (request.lease_id() != "a lease") return {grpc::INVALID_ARGUMENT, "lease_id"};
    *response.mutable_ttl() = ToProto(kTtl);
    return {fates_[std::min(renewals_.size(), fates_.size()) - 1], "because"};
  }

  const std::vector<grpc::StatusCode> fates_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool held_ SLUICE_GUARDED_BY(mutex_) = false;
  std::vector<SteadyTime> renewals_ SLUICE_GUARDED_BY(mutex_);
  std::vector<std::string> released_ SLUICE_GUARDED_BY(mutex_);
  FakeServer server_;
};

// The changes that a keeper reported.
class Changes {
 public:
  LeaseKeeper::OnChange Recorder() {
    return [this](const LeaseKeeper::Change& change) {
      MutexLock lock(mutex_);
      changes_.push_back(change);
      changed_.NotifyAll();
    };
  }

  bool WaitFor(State state) {
    MutexLock lock(mutex_);
    return changed_.WaitUntil(mutex_, SteadyNow() + seconds(20), [&]() SLUICE_REQUIRES(mutex_) {
      return !changes_.empty() && changes_.back().state == state;
    });
  }

  std::vector<State> states() const {
    MutexLock lock(mutex_);
    std::vector<State> states;
    for (const auto& change : changes_) states.push_back(change.state);
    return states;
  }

  LeaseKeeper::Change at(std::size_t i) const {
    MutexLock lock(mutex_);
    return changes_.at(i);
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<LeaseKeeper::Change> changes_ SLUICE_GUARDED_BY(mutex_);
};

TEST(LeaseKeeper, HeldLease_IsRenewedAtEachThirdOfItsTtl) {
  LeaseServer server({grpc::OK});
  const auto client = Client::Create({.address = server.address()}).value();
  Changes changes;
  const SteadyTime asked = SteadyNow();
  LeaseKeeper keeper(*client, MakeLease(kTtl),
                     {.asked = asked, .timeout = seconds(10), .on_change = changes.Recorder()});
  ASSERT_TRUE(server.WaitForRenewals(3));
  const auto renewals = server.renewals();
  EXPECT_GE(renewals[0], asked + kTtl / 3);
  EXPECT_GE(renewals[2], asked + kTtl);
  EXPECT_LT(renewals[0], asked + kTtl);
  EXPECT_THAT(changes.states(), ElementsAre());
}

TEST(LeaseKeeper, Release_EndsRenewals) {
  LeaseServer server({grpc::OK});
  const auto client = Client::Create({.address = server.address()}).value();
  Changes changes;  // not checked: on a busy machine, a renewal may be late
  LeaseKeeper keeper(
      *client, MakeLease(milliseconds(60)),
      {.asked = SteadyNow(), .timeout = seconds(10), .on_change = changes.Recorder()});
  ASSERT_TRUE(server.WaitForRenewals(1));
  EXPECT_TRUE(keeper.Release(v1::HOLD_OUTCOME_OK));
  EXPECT_THAT(server.released(), ElementsAre("a lease"));
  // The third renewal of `other` comes after its whole ttl. One more renewal may be by `keeper`, if
  // it was under way at the release. So the fourth renewal comes after the ttl of `other`. If
  // `keeper` continued to renew, the fourth renewal would come sooner.
  const std::size_t before = server.renewals().size();
  const SteadyTime asked = SteadyNow();
  LeaseKeeper other(*client, MakeLease(kTtl),
                    {.asked = asked, .timeout = seconds(10), .on_change = changes.Recorder()});
  ASSERT_TRUE(server.WaitForRenewals(before + 4));
  EXPECT_GE(server.renewals()[before + 3], asked + kTtl);
}

TEST(LeaseKeeper, RenewalsFailForAWhile_EachChangeIsReportedOnce) {
  LeaseServer server({grpc::UNAVAILABLE, grpc::UNAVAILABLE, grpc::OK, grpc::OK, grpc::NOT_FOUND});
  const auto client = Client::Create({.address = server.address()}).value();
  Changes changes;
  LeaseKeeper keeper(*client, MakeLease(seconds(2)),
                     {.asked = SteadyNow() - milliseconds(600),
                      .timeout = seconds(10),
                      .on_change = changes.Recorder()});
  ASSERT_TRUE(changes.WaitFor(State::kLost));
  EXPECT_THAT(changes.states(), ElementsAre(State::kUnanswered, State::kHeld, State::kLost));
  EXPECT_EQ(changes.at(0).reason, (Error{ErrorCode::kUnavailable, "because"}));
  EXPECT_GT(changes.at(0).left, Duration::zero());
  EXPECT_LT(changes.at(0).left, milliseconds(1400));
  EXPECT_EQ(changes.at(2).reason.code, ErrorCode::kNotFound);
  EXPECT_EQ(server.renewals().size(), 5u);
}

TEST(LeaseKeeper, NoRenewalWithinTheTtl_LeaseIsOverdue_RenewalIsStillRetried) {
  std::vector<grpc::StatusCode> fates(4, grpc::UNAVAILABLE);
  fates.push_back(grpc::NOT_FOUND);
  LeaseServer server(fates);
  const auto client = Client::Create({.address = server.address()}).value();
  Changes changes;
  LeaseKeeper keeper(
      *client, MakeLease(milliseconds(900)),
      {.asked = SteadyNow(), .timeout = seconds(10), .on_change = changes.Recorder()});
  ASSERT_TRUE(changes.WaitFor(State::kLost));
  EXPECT_THAT(changes.states(), ElementsAre(State::kUnanswered, State::kOverdue, State::kLost));
  EXPECT_LE(changes.at(1).left, Duration::zero());
}

TEST(LeaseKeeper, RenewalCrossesRelease_NothingIsReported) {
  LeaseServer server({grpc::NOT_FOUND});
  server.HoldRenewals();
  const auto client = Client::Create({.address = server.address()}).value();
  Changes changes;
  {
    LeaseKeeper keeper(*client, MakeLease(seconds(30)),
                       {.asked = SteadyNow() - seconds(10),
                        .timeout = seconds(10),
                        .on_change = changes.Recorder()});
    ASSERT_TRUE(server.WaitForRenewals(1));
    EXPECT_TRUE(keeper.Release(v1::HOLD_OUTCOME_OK));
  }
  EXPECT_THAT(changes.states(), ElementsAre());
}

}  // namespace
}  // namespace sluice::tools
