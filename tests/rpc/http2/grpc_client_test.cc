// gRPC's own C++ client against the server.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "tests/rpc/http2/served.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

grpc::ByteBuffer Buffer(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

std::string Text(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  return buffer.DumpToSingleSlice(&slice).ok()
             ? std::string(reinterpret_cast<const char*>(slice.begin()), slice.size())
             : "";
}

class GrpcClientTest : public testing::Test {
 protected:
  ~GrpcClientTest() override {
    queue_.Shutdown();
    void* tag;
    for (bool ok; queue_.Next(&tag, &ok);) {
    }
  }

  // Waits for the operation started last. Returns whether it has succeeded.
  bool Next() {
    void* tag;
    bool ok = false;
    const auto limit = std::chrono::system_clock::now() + kSoon;
    return queue_.AsyncNext(&tag, &ok, limit) == grpc::CompletionQueue::GOT_EVENT && ok;
  }

  grpc::Status Call(grpc::ClientContext& context, const std::string& request,
                    std::string* response = nullptr) {
    const auto call = stub_.PrepareUnaryCall(&context, "/t/Echo", Buffer(request), &queue_);
    call->StartCall();
    grpc::ByteBuffer buffer;
    grpc::Status status;
    call->Finish(&buffer, &status, nullptr);
    Next();
    if (response != nullptr) *response = Text(buffer);
    return status;
  }

  Served served_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_{
      grpc::CreateChannel(served_.address().ToString(), grpc::InsecureChannelCredentials())};
};

TEST_F(GrpcClientTest, Unary_Messages_AreEchoed) {
  for (const std::size_t size : {0U, 1U, 100U, 70'000U, 1'048'576U}) {
    grpc::ClientContext context;
    std::string response;
    EXPECT_TRUE(Call(context, std::string(size, 'm'), &response).ok()) << size;
    EXPECT_EQ(response, std::string(size, 'm'));
  }
}

TEST_F(GrpcClientTest, Unary_TooLarge_IsResourceExhausted) {
  grpc::ClientContext context;
  const grpc::Status status = Call(context, std::string(1'048'577, 'm'));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcClientTest, Unary_Compressed_IsDecompressed) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    std::string response;
    EXPECT_TRUE(Call(context, std::string(100'000, 'm'), &response).ok());
    EXPECT_EQ(response, std::string(100'000, 'm'));
  }
}

TEST_F(GrpcClientTest, Unary_StatusAndMessage_Arrive) {
  grpc::ClientContext context;
  context.AddMetadata("x-status", "9");
  context.AddMetadata("x-message", "50% off");
  const grpc::Status status = Call(context, "a");
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "50% off");
}

TEST_F(GrpcClientTest, Unary_DeadlinePasses_IsCanceled) {
  grpc::ClientContext context;
  context.AddMetadata("x-hold", "1");
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(Call(context, "a").error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().canceled == 1; }));
  served_.ReleaseHeld();
  grpc::ClientContext next;
  EXPECT_TRUE(Call(next, "b").ok());
}

TEST_F(GrpcClientTest, Stream_BothWays_EndsWithStatus) {
  grpc::ClientContext context;
  const auto call = stub_.PrepareCall(&context, "/t/Chat", &queue_);
  call->StartCall(nullptr);
  ASSERT_TRUE(Next());
  for (const std::size_t size : {0U, 5U, 300'000U}) {
    call->Write(Buffer(std::string(size, 's')), nullptr);
    ASSERT_TRUE(Next());
    grpc::ByteBuffer buffer;
    call->Read(&buffer, nullptr);
    ASSERT_TRUE(Next());
    EXPECT_EQ(Text(buffer), std::string(size, 's'));
  }
  call->WritesDone(nullptr);
  ASSERT_TRUE(Next());
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(Next());
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(GrpcClientTest, Server_Stopped_NewCallsAreUnavailable) {
  grpc::ClientContext first;
  EXPECT_TRUE(Call(first, "a").ok());
  served_.server().Stop(kSoon);
  grpc::ClientContext second;
  EXPECT_EQ(Call(second, "b").error_code(), grpc::UNAVAILABLE);
}

}  // namespace
}  // namespace sluice::test
