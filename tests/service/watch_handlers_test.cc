// Handlers of health and reflection on a loop whose iterations the test runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "service/health_service.h"
#include "service/reflection_service.h"
#include "tests/support/fake_call.h"
#include "tests/support/manual_loop.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

// A handler of the method whose path ends with `name`.
std::unique_ptr<rpc::StreamHandler> StreamOf(const rpc::Methods& methods, net::Loop& loop,
                                             const std::string& name) {
  for (const rpc::Method& method : methods) {
    if (method.path.ends_with("/" + name)) return method.stream(loop);
  }
  return nullptr;
}

TEST(HealthWatchHandler, DrainBeforeTheNextIteration_SendsNotServingBeforeTheEnd) {
  ManualLoop loop;
  HealthService health;
  rpc::Methods methods;
  health.AddTo(methods);
  const auto handler = StreamOf(methods, loop, "Watch");
  FakeCall call;
  handler->Attach(call);
  handler->OnStart(call);
  handler->OnMessage("");
  handler->OnHalfClose();
  health.StopServing();
  handler->OnDrain();
  EXPECT_THAT(call.sent, testing::ElementsAre("\x08\x01", "\x08\x02"));
  EXPECT_EQ(rpc::StatusCode::kUnavailable, call.status.code);
  loop.RunUntilIdle();
  EXPECT_EQ(2U, call.sent.size());
  EXPECT_EQ(1, call.finished);
}

TEST(HealthWatchHandler, CallerThatDoesNotRead_GetsTheLatestStatusWhenItReads) {
  ManualLoop loop;
  HealthService health;
  rpc::Methods methods;
  health.AddTo(methods);
  const auto handler = StreamOf(methods, loop, "Watch");
  FakeCall call;
  call.caller_reads = false;
  handler->Attach(call);
  handler->OnStart(call);
  handler->OnMessage("");
  for (int i = 0; i < 1'000; ++i) {
    health.SetReady(i % 2 != 0);
    loop.RunUntilIdle();
  }
  EXPECT_LT(call.unsent_bytes(), 100U);
  const std::size_t told = call.sent.size();
  ASSERT_EQ("\x08\x02", call.sent.back()) << "the latest status must wait until the caller reads";
  call.ReadAll(*handler);
  EXPECT_EQ(told + 1, call.sent.size());
  EXPECT_EQ("\x08\x01", call.sent.back());
  health.SetReady(false);
  loop.RunUntilIdle();
  EXPECT_EQ("\x08\x02", call.sent.back());
  for (std::size_t i = 1; i < call.sent.size(); ++i) EXPECT_NE(call.sent[i - 1], call.sent[i]);
}

TEST(HealthWatchHandler, NoRequestOrTwoRequests_AreInvalid) {
  ManualLoop loop;
  HealthService health;
  rpc::Methods methods;
  health.AddTo(methods);
  const auto handler = StreamOf(methods, loop, "Watch");
  for (const int requests : {0, 2}) {
    FakeCall call;
    handler->Attach(call);
    handler->OnStart(call);
    for (int i = 0; i < requests; ++i) handler->OnMessage("");
    if (requests == 0) handler->OnHalfClose();
    EXPECT_EQ(1, call.finished) << requests;
    EXPECT_EQ(rpc::StatusCode::kInvalidArgument, call.status.code) << requests;
  }
}

TEST(ReflectionHandler, UnreadResponses_PauseReadingUntilTheyAreRead) {
  ManualLoop loop;
  rpc::Methods methods;
  AddReflection(methods);
  const auto handler = StreamOf(methods, loop, "ServerReflectionInfo");
  FakeCall call;
  call.caller_reads = false;
  handler->Attach(call);
  handler->OnStart(call);
  const std::string list_services("\x3a\x00", 2);
  for (int i = 0; i < 100'000 && call.reading; ++i) handler->OnMessage(list_services);
  EXPECT_FALSE(call.reading);
  EXPECT_LT(call.unsent_bytes(), 2 * kMaxUnsentReflection);
  call.ReadAll(*handler);
  EXPECT_TRUE(call.reading);
  handler->OnHalfClose();
  EXPECT_EQ(1, call.finished);
}

}  // namespace
}  // namespace sluice::test
