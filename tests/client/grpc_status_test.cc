#include "client/grpc_status.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(GrpcStatus, CodeName_IsSpelledAsInGrpc) {
  EXPECT_EQ(CodeName(0), "OK");
  EXPECT_EQ(CodeName(3), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeName(GrpcStatus::kUnavailable), "UNAVAILABLE");
  EXPECT_EQ(CodeName(GrpcStatus::kUnauthenticated), "UNAUTHENTICATED");
  for (const int code : {-1, 17, 1 << 30}) EXPECT_EQ(CodeName(code), "UNKNOWN");
}

TEST(GrpcStatus, ParseCode_AcceptsOnlyNumbers) {
  EXPECT_EQ(ParseCode("0"), 0);
  EXPECT_EQ(ParseCode("14"), 14);
  for (const char* header : {"", "x", "14x", " 0"})
    EXPECT_EQ(ParseCode(header), GrpcStatus::kUnknown) << header;
}

TEST(GrpcStatus, NoStatusFromTheServer_HttpCodesAndResetsAreMappedAsInGrpc) {
  EXPECT_EQ(StatusOfHttp(404).code, GrpcStatus::kUnimplemented);
  EXPECT_EQ(StatusOfHttp(503).code, GrpcStatus::kUnavailable);
  EXPECT_EQ(StatusOfHttp(200).code, GrpcStatus::kUnknown);
  EXPECT_EQ(StatusOfReset(7).code, GrpcStatus::kUnavailable);  // REFUSED_STREAM
  EXPECT_EQ(StatusOfReset(8).code, GrpcStatus::kCancelled);
  EXPECT_EQ(StatusOfReset(2).code, GrpcStatus::kInternal);
  EXPECT_EQ(StatusOfReset(7).message, "the server reset the call: REFUSED_STREAM");
}

}  // namespace
}  // namespace sluice
