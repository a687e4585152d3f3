// Reflection as tools use it: a client can call a server without the server's .proto files.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <grpc/reflection/v1/reflection.grpc.pb.h>
#include <grpc/reflection/v1alpha/reflection.grpc.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/service/serving_fixture.h"

namespace sluice::test {
namespace {

using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using std::chrono::seconds;

using Stream = grpc::ClientReaderWriter<ServerReflectionRequest, ServerReflectionResponse>;

class ReflectionTest : public ServingTest {
 protected:
  ReflectionTest() {
    context_.set_deadline(std::chrono::system_clock::now() + seconds(30));
    stream_ = ServerReflection::NewStub(channel_)->ServerReflectionInfo(&context_);
  }
  ~ReflectionTest() override { context_.TryCancel(); }

  ServerReflectionResponse Ask(const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    EXPECT_EQ(request.SerializeAsString(), response.original_request().SerializeAsString());
    return response;
  }

  static ServerReflectionRequest ForSymbol(const std::string& symbol) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    return request;
  }

  // The files of a response, by name.
  static std::vector<std::string> FilesOf(const ServerReflectionResponse& response) {
    std::vector<std::string> names;
    for (const auto& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.push_back(file.name());
    }
    return names;
  }

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(ReflectionTest, ListServices_NamesEveryServiceOfTheServer) {
  ServerReflectionRequest request;
  request.set_list_services("");
  std::vector<std::string> names;
  const auto response = Ask(request);
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("sluice.v1.RateLimiter", "grpc.health.v1.Health",
                                                   "grpc.reflection.v1.ServerReflection",
                                                   "grpc.reflection.v1alpha.ServerReflection"));
}

TEST_F(ReflectionTest, ListedServices_CanBeBuiltFromTheResponses) {
  ServerReflectionRequest list;
  list.set_list_services("");
  google::protobuf::SimpleDescriptorDatabase files;
  const auto listed = Ask(list);
  for (const auto& service : listed.list_services_response().service()) {
    const auto response = Ask(ForSymbol(service.name()));
    for (const auto& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      files.Add(file);
    }
  }
  const google::protobuf::DescriptorPool pool(&files);
  for (const auto& service : listed.list_services_response().service()) {
    EXPECT_NE(nullptr, pool.FindServiceByName(service.name())) << service.name();
  }
  const auto* method = pool.FindMethodByName("sluice.v1.RateLimiter.CheckLimitStream");
  ASSERT_NE(nullptr, method);
  EXPECT_TRUE(method->client_streaming());
  EXPECT_EQ("sluice.v1.CheckLimitsRequest", method->input_type()->full_name());
}

TEST_F(ReflectionTest, Imports_AreSentOncePerStream_RequestedFileEachTime) {
  EXPECT_THAT(FilesOf(Ask(ForSymbol("sluice.v1.CheckLimitRequest"))),
              testing::UnorderedElementsAre("sluice/v1/rate_limiter.proto",
                                            "google/protobuf/duration.proto",
                                            "google/protobuf/timestamp.proto"));
  EXPECT_THAT(FilesOf(Ask(ForSymbol("sluice.v1.RateLimiter.CheckLimit"))),
              testing::ElementsAre("sluice/v1/rate_limiter.proto"));
  ServerReflectionRequest by_name;
  by_name.set_file_by_filename("google/protobuf/duration.proto");
  EXPECT_THAT(FilesOf(Ask(by_name)), testing::ElementsAre("google/protobuf/duration.proto"));
}

TEST_F(ReflectionTest, UnknownNames_AreNotFound_StreamContinues) {
  std::vector<ServerReflectionRequest> requests(4);
  requests[0].set_file_by_filename("no.proto");
  requests[1].set_file_containing_symbol("no.Symbol");
  requests[2].mutable_file_containing_extension()->set_containing_type("no.Type");
  requests[3].set_all_extension_numbers_of_type("no.Type");
  for (const auto& request : requests) {
    EXPECT_EQ(grpc::StatusCode::NOT_FOUND, Ask(request).error_response().error_code());
  }
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, Ask({}).error_response().error_code());
  EXPECT_THAT(FilesOf(Ask(ForSymbol("grpc.health.v1.Health"))),
              testing::ElementsAre("grpc/health/v1/health.proto"));
  stream_->WritesDone();
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(ReflectionTest, Extensions_OfATypeWithoutExtensions_AreEmpty) {
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("sluice.v1.CheckLimitRequest");
  const auto numbers = Ask(request).all_extension_numbers_response();
  EXPECT_EQ("sluice.v1.CheckLimitRequest", numbers.base_type_name());
  EXPECT_EQ(0, numbers.extension_number_size());
}

TEST_F(ReflectionTest, EarlierVersion_SendsAServiceAndItsImports) {
  namespace v1alpha = grpc::reflection::v1alpha;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(30));
  const auto stub = v1alpha::ServerReflection::NewStub(channel_);
  const auto stream = stub->ServerReflectionInfo(&context);
  v1alpha::ServerReflectionRequest request;
  request.set_file_containing_symbol("sluice.v1.RateLimiter");
  ASSERT_TRUE(stream->Write(request));
  v1alpha::ServerReflectionResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(3, response.file_descriptor_response().file_descriptor_proto_size());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Together, the responses are much larger than a flow-control window of 64 KiB.
TEST_F(ReflectionTest, ManyRequestsAtOnce_AreAllAnswered) {
  constexpr int kRequests = 2'000;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_TRUE(stream_->Write(ForSymbol("sluice.v1.RateLimiter")));
    }
    stream_->WritesDone();
  });
  ServerReflectionResponse response;
  int answers = 0;
  while (stream_->Read(&response)) ++answers;
  writer.join();
  EXPECT_EQ(kRequests, answers);
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(ReflectionTest, ServerStops_TheStreamEnds) {
  Ask(ForSymbol("sluice.v1.RateLimiter"));
  Stop(seconds(20));
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, stream_->Finish().error_code());
}

}  // namespace
}  // namespace sluice::test
