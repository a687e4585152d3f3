// Handlers of single checks and of batches: their allocations, the checks that they start in one
// iteration of the loop, and the order of their answers. Also the leases that they and the
// handlers of streams release when callers have gone.
#include "tests/service/handlers_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "service/check_limit_handler.h"
#include "service/check_limits_handler.h"
#include "service/check_stream_handler.h"
#include "tests/support/allocations.h"

namespace sluice::test {
namespace {

TEST_F(HandlersTest, CheckLimit_InTheSteadyState_AllocatesNothing) {
  if (!CountsAllocations()) GTEST_SKIP();
  CheckLimitHandler handler(limiter_, buffer_);
  handler.Attach(call_);
  const std::string request = Check(7).SerializeAsString();
  store_.admitting = true;
  for (int i = 0; i < 3; ++i) handler.Serve(call_, request);
  const std::size_t before = Allocations();
  handler.Serve(call_, request);
  EXPECT_EQ(before, Allocations());
  v1::CheckLimitResponse response;
  ASSERT_TRUE(response.ParseFromString(call_.response));
  EXPECT_EQ(v1::DECISION_ALLOWED, response.decision());
  EXPECT_EQ(1, response.limits_size());
}

// A canceled call releases the leases that its caller has not got.
class CanceledHolders : public HandlersTest {
 protected:
  CanceledHolders() {
    Rule rule{.name = "slots"};
    rule.limits.limits = {Concurrency{.limit = 5, .ttl = std::chrono::hours(1)}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  // Takes one slot, and expects that `slots` slots were free before.
  // REQUIRES: `slots` is at least 1
  void ExpectFree(std::uint64_t slots) {
    call_.caller_gone = false;
    CheckLimitHandler handler(limiter_, buffer_);
    handler.Attach(call_);
    store_.holding = false;
    handler.Serve(call_, Check(7).SerializeAsString());
    v1::CheckLimitResponse response;
    ASSERT_TRUE(response.ParseFromString(call_.response));
    EXPECT_EQ(response.limits(0).remaining(), slots - 1);
  }
};

TEST_F(CanceledHolders, CheckLimit_ReleasesItsLease) {
  CheckLimitHandler handler(limiter_, buffer_);
  handler.Attach(call_);
  const std::string request = Check(7).SerializeAsString();
  for (int i = 0; i < 20; ++i) {
    store_.holding = true;
    handler.Serve(call_, request);
    call_.caller_gone = true;
    handler.OnCancel();
    store_.Release();
  }
  ExpectFree(5);
}

TEST_F(CanceledHolders, Batch_ReleasesItsLeases_NotThoseOfOtherCalls) {
  ExpectFree(5);  // the slot of another call
  CheckLimitsHandler handler(batches_, items_, buffer_);
  handler.Attach(call_);
  for (int i = 0; i < 5; ++i) {
    const std::string request = Frame(200);
    store_.holding = true;
    loop_.RunIteration([&] { handler.Serve(call_, request); });
    store_.Release(3);
    call_.caller_gone = true;
    handler.OnCancel();
    loop_.RunUntilIdle();
    store_.Release();
  }
  ExpectFree(4);
}

TEST_F(CanceledHolders, Stream_ReleasesLeasesNotSentYet) {
  CheckStreamHandler handler(loop_, items_);
  handler.Attach(call_);
  for (int i = 0; i < 5; ++i) {
    loop_.RunIteration([&] {
      handler.OnStart(call_);
      store_.holding = true;
      handler.OnMessage(Frame(20));
      store_.Release(3);
      handler.OnCancel();
      store_.Release();
    });
  }
  ExpectFree(5);
}

class BatchHandlerTest : public HandlersTest {
 protected:
  BatchHandlerTest() { handler_.Attach(call_); }

  CheckLimitsHandler handler_{batches_, items_, buffer_};
};

TEST_F(BatchHandlerTest, LongBatch_StartsInSteps_AnswersInOrder) {
  const std::string request = Frame(1000);
  loop_.RunIteration([&] { handler_.Serve(call_, request); });
  EXPECT_LE(store_.submitted, BatchQueue::kChecksPerIteration);
  for (int turn = 0; turn < 100 && call_.finished == 0; ++turn) {
    const std::size_t before = store_.submitted;
    loop_.RunIteration();
    EXPECT_LE(store_.submitted - before, BatchQueue::kChecksPerIteration);
  }
  ASSERT_EQ(1, call_.finished);
  v1::CheckLimitsResponse response;
  ASSERT_TRUE(response.ParseFromString(call_.response));
  ASSERT_EQ(1000, response.results_size());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(std::to_string(i), response.results(i).response().request_id());
  }
}

// A batch starts its checks after the earlier batches have started theirs. So only few batches hold
// results at the same time.
TEST_F(BatchHandlerTest, LongBatches_AreStartedOneAfterTheOther) {
  constexpr int kBatches = 20;
  const std::string request = Frame(1000);
  std::deque<FakeCall> calls(kBatches);
  std::deque<CheckLimitsHandler> handlers;
  loop_.RunIteration([&] {
    for (FakeCall& call : calls) {
      CheckLimitsHandler& handler = handlers.emplace_back(batches_, items_, buffer_);
      handler.Attach(call);
      handler.Serve(call, request);
    }
  });
  const auto is_finished = [](const FakeCall& call) { return call.finished == 1; };
  for (int turn = 0; turn < 1000 && !is_finished(calls.back()); ++turn) {
    const std::size_t before = store_.submitted;
    loop_.RunIteration();
    EXPECT_LE(store_.submitted - before, BatchQueue::kChecksPerIteration);
    // The batches before the current one are finished. The batches after it have not begun.
    const auto current = std::find_if_not(calls.begin(), calls.end(), is_finished);
    const auto finished = static_cast<std::size_t>(current - calls.begin());
    EXPECT_LE(store_.submitted, (finished + 1) * 1000);
  }
  EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), is_finished));
}

TEST_F(BatchHandlerTest, Trim_FreesItemsThatRecentBatchesDidNotNeed) {
  if (!CountsAllocations()) GTEST_SKIP();
  constexpr int kMany = 60, kFew = 10;
  const auto allocations_for = [&](int checks) {
    const std::string request = Frame(checks);
    const std::size_t before = Allocations();
    handler_.Serve(call_, request);
    return Allocations() - before;
  };
  for (int i = 0; i < 3; ++i) allocations_for(kMany);
  const std::size_t usual_many = allocations_for(kMany);
  const std::size_t usual_few = allocations_for(kFew);
  items_.Trim();
  allocations_for(kFew);
  items_.Trim();
  EXPECT_EQ(usual_few, allocations_for(kFew));
  EXPECT_GE(allocations_for(kMany), usual_many + (kMany - kFew));
}

TEST_F(BatchHandlerTest, Canceled_StartsNoMoreChecksAndWaitsForTheStore) {
  store_.holding = true;
  const std::string request = Frame(1000);
  loop_.RunIteration([&] { handler_.Serve(call_, request); });
  const std::size_t started = store_.submitted;
  handler_.OnCancel();
  EXPECT_LE(loop_.RunUntilIdle(), 2);
  EXPECT_EQ(started, store_.submitted);
  EXPECT_EQ(0, call_.finished);
  store_.Release();
  EXPECT_EQ(1, call_.finished);

  store_.holding = false;
  handler_.Serve(call_, Frame(3));
  EXPECT_EQ(2, call_.finished);
  EXPECT_EQ(3, ResultsOf(call_.response)) << "a canceled call leaves no state";
}

}  // namespace
}  // namespace sluice::test
