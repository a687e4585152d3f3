// The handler of a stream: frames in, frames out, back pressure, drain and cancellation.
#include "tests/service/handlers_fixture.h"

#include <gmock/gmock.h>

#include "service/check_stream_handler.h"

namespace sluice::test {
namespace {

using ::testing::HasSubstr;

class StreamHandlerTest : public HandlersTest {
 protected:
  StreamHandlerTest() {
    handler_.Attach(call_);
    handler_.OnStart(call_);
  }
  ~StreamHandlerTest() override {
    store_.Release();
    loop_.RunUntilIdle();
  }

  int Results() const {
    int results = 0;
    for (const auto& frame : call_.sent) results += ResultsOf(frame);
    return results;
  }

  CheckStreamHandler handler_{loop_, items_};
};

TEST_F(StreamHandlerTest, ResultsOfAnIteration_AreSentInOneFrame) {
  loop_.RunIteration([&] {
    handler_.OnMessage(Frame(10));
    handler_.OnMessage(Frame(10, 10));
    EXPECT_TRUE(call_.sent.empty());
  });
  ASSERT_EQ(1U, call_.sent.size());
  EXPECT_EQ(20, ResultsOf(call_.sent[0]));
  store_.holding = true;
  loop_.RunIteration([&] { handler_.OnMessage(Frame(30)); });
  loop_.RunIteration([&] { store_.Release(20); });
  loop_.RunIteration([&] { store_.Release(10); });
  ASSERT_EQ(3U, call_.sent.size());
  EXPECT_EQ(20, ResultsOf(call_.sent[1]));
}

TEST_F(StreamHandlerTest, ChecksOfALargeFrame_StartInSteps) {
  loop_.RunIteration([&] {
    handler_.OnMessage(Frame(500));
    handler_.OnMessage(Frame(500, 500));
    EXPECT_EQ(CheckStreamHandler::kChecksPerIteration, store_.submitted);
  });
  handler_.OnHalfClose();
  EXPECT_EQ(0, call_.finished);
  EXPECT_GE(loop_.RunUntilIdle(), 1000 / 64 - 1);
  EXPECT_EQ(1000, Results());
  EXPECT_EQ(1, call_.finished);
  EXPECT_TRUE(call_.status.ok());
}

TEST_F(StreamHandlerTest, TooManyOpenChecks_PauseReadingUntilAnswered) {
  store_.holding = true;
  for (int i = 0; i < 4; ++i) loop_.RunIteration([&] { handler_.OnMessage(Frame(1000)); });
  EXPECT_TRUE(call_.reading);
  loop_.RunIteration([&] { handler_.OnMessage(Frame(1000)); });
  EXPECT_FALSE(call_.reading);
  loop_.RunUntilIdle();
  loop_.RunIteration([&] { store_.Release(); });
  EXPECT_TRUE(call_.reading);
  EXPECT_EQ(5000, Results());
}

TEST_F(StreamHandlerTest, UnreadResults_PauseReadingUntilTheyAreRead) {
  call_.caller_reads = false;
  for (int i = 0; i < 5; ++i) {
    loop_.RunIteration([&] { handler_.OnMessage(Frame(1000)); });
    loop_.RunUntilIdle();
  }
  EXPECT_FALSE(call_.reading);
  EXPECT_EQ(5000, Results());
  call_.ReadAll(handler_);
  EXPECT_TRUE(call_.reading);
}

TEST_F(StreamHandlerTest, Drain_AnswersAcceptedChecksOnly) {
  store_.holding = true;
  loop_.RunIteration([&] {
    handler_.OnMessage(Frame(100));
    handler_.OnDrain();
    handler_.OnMessage(Frame(100, 100));
  });
  loop_.RunUntilIdle();
  EXPECT_EQ(0, call_.finished);
  loop_.RunIteration([&] { store_.Release(); });
  EXPECT_EQ(100, Results());
  EXPECT_EQ(rpc::StatusCode::kUnavailable, call_.status.code);
  EXPECT_THAT(call_.status.message, HasSubstr("shutting down"));
}

TEST_F(StreamHandlerTest, Canceled_StartsNoMoreChecks_WaitsForTheStore_ServesTheNextStream) {
  store_.holding = true;
  loop_.RunIteration([&] {
    handler_.OnMessage(Frame(500));
    handler_.OnCancel();
  });
  loop_.RunUntilIdle();
  EXPECT_EQ(CheckStreamHandler::kChecksPerIteration, store_.submitted);
  EXPECT_EQ(0, call_.finished);
  loop_.RunIteration([&] { store_.Release(); });
  EXPECT_EQ(1, call_.finished);
  EXPECT_EQ(0, Results());

  store_.holding = false;
  handler_.OnStart(call_);
  loop_.RunIteration([&] { handler_.OnMessage(Frame(3)); });
  handler_.OnHalfClose();
  EXPECT_EQ(3, Results());
  EXPECT_EQ(2, call_.finished);
  EXPECT_TRUE(call_.status.ok());
}

TEST_F(StreamHandlerTest, InvalidFrame_EndsTheStream_AfterAnswersToEarlierFrames) {
  store_.holding = true;
  loop_.RunIteration([&] {
    handler_.OnMessage(Frame(5));
    handler_.OnMessage("");
    handler_.OnMessage(Frame(5));
  });
  EXPECT_EQ(0, call_.finished);
  store_.Release();
  EXPECT_EQ(1, call_.finished);
  EXPECT_EQ(rpc::StatusCode::kInvalidArgument, call_.status.code);
  EXPECT_EQ(5, Results());
}

}  // namespace
}  // namespace sluice::test
