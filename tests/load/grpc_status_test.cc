#include "load/grpc_status.h"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

TEST(GrpcStatus, CodeName_AsGrpcSpellsIt) {
  EXPECT_EQ(CodeName(0), "OK");
  EXPECT_EQ(CodeName(3), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeName(kUnavailable), "UNAVAILABLE");
  EXPECT_EQ(CodeName(kUnauthenticated), "UNAUTHENTICATED");
  for (const int code : {-1, 17, 1 << 30}) EXPECT_EQ(CodeName(code), "UNKNOWN");
}

TEST(GrpcStatus, ParseCode_NumbersOnly) {
  EXPECT_EQ(ParseCode("0"), 0);
  EXPECT_EQ(ParseCode("14"), 14);
  for (const char* header : {"", "x", "14x", " 0"})
    EXPECT_EQ(ParseCode(header), kUnknown) << header;
}

TEST(GrpcStatus, WithoutOne_AsGrpcMapsHttp) {
  EXPECT_EQ(StatusOfHttp(404).code, kUnimplemented);
  EXPECT_EQ(StatusOfHttp(503).code, kUnavailable);
  EXPECT_EQ(StatusOfHttp(200).code, kUnknown);
  EXPECT_EQ(StatusOfReset(7).code, kUnavailable);  // REFUSED_STREAM
  EXPECT_EQ(StatusOfReset(8).code, kCancelled);
  EXPECT_EQ(StatusOfReset(2).code, kInternal);
  EXPECT_EQ(StatusOfReset(7).message, "the server reset the call: REFUSED_STREAM");
}

}  // namespace
}  // namespace sluice::load
