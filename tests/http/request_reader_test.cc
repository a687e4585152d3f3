// Parsing requests from arbitrarily split bytes, and serializing responses.
#include "http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Progress = RequestReader::Progress;

// Passes `bytes` to the reader in pieces of `step` bytes. Passes unused bytes again, in front
// of the next piece.
Progress Feed(RequestReader& reader, std::string_view bytes, std::size_t step) {
  std::string input;
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    input += piece;
    std::size_t used = 0;
    const Progress progress = reader.Read(input, used);
    input.erase(0, used);
    if (progress != Progress::kNeedsInput) return progress;
  }
  return Progress::kNeedsInput;
}

TEST(RequestReader, Request_SplitAnywhere_IsTheSame) {
  for (const std::string body :
       {"Content-Length: 11\r\n\r\nhello world",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"}) {
    const std::string bytes = "POST /v1/check?a=1&b=? HTTP/1.1\r\nHost: x\r\nX-Two:  2 \r\n" + body;
    for (std::size_t step = 1; step <= bytes.size(); ++step) {
      RequestReader reader;
      ASSERT_EQ(Feed(reader, bytes, step), Progress::kDone) << step;
      const HttpRequest request = reader.Take();
      EXPECT_EQ(request.method, "POST");
      EXPECT_EQ(request.path, "/v1/check");
      EXPECT_EQ(request.query, "a=1&b=?");
      EXPECT_EQ(request.body, "hello world");
      EXPECT_EQ(OnlyHeader(request.headers, "x-TWO"), "2");
      EXPECT_EQ(OnlyHeader(request.headers, "x-three"), std::nullopt);
    }
  }
}

// If Beast got an empty chunked body in pieces, one of its assertions would fail. So the reader
// waits for all five bytes.
TEST(RequestReader, EmptyChunkedBody_SplitAnywhere_IsDone) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    RequestReader reader;
    ASSERT_EQ(Feed(reader, bytes, step), Progress::kDone) << step;
    EXPECT_EQ(reader.Take().body, "");
  }
}

// A proxy may remove certain headers of clients, and still forward their trailers.
TEST(RequestReader, Trailers_AreNotHeaders) {
  const std::string bytes =
      "POST /v1/auth HTTP/1.1\r\nHost: x\r\nX-User: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nok\r\n0\r\nX-Sluice-Domain: web\r\nX-User: 2\r\nAuthorization: Bearer x\r\n\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{50}, bytes.size()}) {
    RequestReader reader;
    ASSERT_EQ(Feed(reader, bytes, step), Progress::kDone) << step;
    const HttpRequest request = reader.Take();
    EXPECT_EQ(request.body, "ok");
    EXPECT_EQ(request.headers.size(), 3U);
    EXPECT_EQ(OnlyHeader(request.headers, "x-user"), "1");
  }
}

TEST(RequestReader, NextRequest_StaysInTheInput) {
  const std::string first = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n";
  RequestReader reader;
  std::size_t used = 0;
  EXPECT_EQ(reader.Read(first + "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n", used), Progress::kDone);
  EXPECT_EQ(used, first.size());
}

TEST(RequestReader, KeepAlive_FollowsVersionAndHeader) {
  for (const auto& [rest, keep] : std::vector<std::pair<std::string, bool>>{
           {"1.1\r\nHost: x\r\n\r\n", true},
           {"1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false},
           {"1.0\r\n\r\n", false},
           {"1.0\r\nConnection: keep-alive\r\n\r\n", true}}) {
    RequestReader reader;
    ASSERT_EQ(Feed(reader, "GET / HTTP/" + rest, 100), Progress::kDone);
    EXPECT_EQ(reader.keep_alive(), keep) << rest;
  }
}

TEST(RequestReader, UnacceptableRequest_IsRefusedWithAStatus) {
  const std::string long_header = "X: " + std::string(20'000, 'x');
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, int>>{
           {"nonsense\r\n\r\n", 400},
           {"GET / HTTP/2.0\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", 413},
           {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n" +
                std::string(70'000, 'x'),
            413},
           {"GET / HTTP/1.1\r\nHost: x\r\n" + long_header, 431},
           {"GET / HTTP/1.1\r\nHost: x\r\n" + long_header + "\r\n\r\n", 431}}) {
    for (const std::size_t step : {std::size_t{7}, bytes.size()}) {
      RequestReader reader;
      ASSERT_EQ(Feed(reader, bytes, step), Progress::kRefused) << bytes.substr(0, 60);
      EXPECT_EQ(reader.status(), status) << bytes.substr(0, 60);
    }
  }
}

// Proxies read the requests below in different ways. If Sluice read a request differently than the
// proxy in front of it, clients could bypass the proxy's checks.
TEST(RequestReader, RequestThatServersReadInDifferentWays_IsRefused) {
  const std::string host = "Host: x\r\n";
  std::vector<std::string> requests = {"GET / HTTP/1.1\r\n\r\n",
                                       "GET / HTTP/1.1\r\nX: y\r\n\r\n",
                                       "GET / HTTP/1.1\r\n" + host + host + "\r\n",
                                       "GET / HTTP/1.0\r\n" + host + "hOST: y\r\n\r\n",
                                       "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n",
                                       "GET / HTTP/1.1\r\n" + host + "X: a\r\n\tX-User: 1\r\n\r\n",
                                       "GET / HTTP/1.1\r\n" + host + "X:\r\n \r\n\r\n",
                                       "GET / HTTP/1.1\r\n " + host + "\r\n",
                                       "GET / HTTP/1.1\r\n" + host + " \r\n\r\n",
                                       "GET / HTTP/1.1\r\n" + host + "X : a\r\n\r\n",
                                       "GET / HTTP/1.1\n" + host + "\r\n"};
  for (const char c : std::string("\x00\x01\x08\n\x0b\r\x1f\x7f", 8)) {
    requests.push_back("GET / HTTP/1.1\r\n" + host + "X: a" + c + "b\r\n\r\n");
    requests.push_back("GET / HTTP/1.1\r\n" + host + "X" + c + ": b\r\n\r\n");
    requests.push_back("GET /" + std::string(1, c) + " HTTP/1.1\r\n" + host + "\r\n");
  }
  for (const std::string& request : requests) {
    for (const std::size_t step : {std::size_t{1}, request.size()}) {
      RequestReader reader;
      EXPECT_EQ(Feed(reader, request + "GET / HTTP/1.1\r\n" + host + "\r\n", step),
                Progress::kRefused)
          << ::testing::PrintToString(request);
      EXPECT_EQ(reader.status(), 400) << request;
    }
  }
  for (const std::string head : {"1.0\r\n", "1.0\r\nHost: x\r\n", "1.1\r\nHost:\r\n",
                                 "1.1\r\nHost: x\r\nX: a\tb\xC3\xA9\r\n"}) {
    RequestReader reader;
    EXPECT_EQ(Feed(reader, "GET / HTTP/" + head + "\r\n", 100), Progress::kDone) << head;
  }
}

// If headers do not say clearly where the body ends, a proxy may treat all bytes after them as the
// body. If Sluice read some of these bytes as the next request, clients could hide requests from
// the proxy.
TEST(RequestReader, BodyWithUnknownEnd_IsRefused) {
  for (const std::string head :
       {"1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity",
        "1.1\r\nHost: x\r\nTransfer-Encoding: gzip",
        "1.1\r\nHost: x\r\nTransfer-Encoding: identity",
        "1.1\r\nHost: x\r\nTransfer-Encoding: xchunked",
        "1.1\r\nHost: x\r\nTransfer-Encoding: chunked;q=1",
        "1.1\r\nHost: x\r\nTransfer-Encoding: identity, chunked",
        "1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "1.1\r\nHost: x\r\nTransfer-Encoding:", "1.0\r\nTransfer-Encoding: chunked",
        "1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
        "1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: gzip",
        "1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6"}) {
    const std::string bytes =
        "POST / HTTP/" + head + "\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n";
    for (const std::size_t step : {std::size_t{1}, bytes.size()}) {
      RequestReader reader;
      ASSERT_EQ(Feed(reader, bytes, step), Progress::kRefused) << head;
      EXPECT_EQ(reader.status(), 400) << head;
    }
  }
}

// A connection keeps bytes that are not parsed yet. The limit on headers bounds these bytes, too.
TEST(RequestReader, EndlessExtensionsOrTrailers_AreRefusedAtTheLimitOfHeaders) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string begin : {"5;a=", "1\r\nx\r\n5;a=", "0;a=", "0\r\nX: "}) {
    for (const std::size_t step : {std::size_t{1'000}, std::size_t{16 * 1024}}) {
      RequestReader reader;
      ASSERT_EQ(Feed(reader, head + begin + std::string(40'000, 'x'), step), Progress::kRefused)
          << begin;
      EXPECT_EQ(reader.status(), 431);
    }
    RequestReader reader;
    EXPECT_EQ(Feed(reader, head + begin + std::string(15'000, 'x'), 1'000), Progress::kNeedsInput);
  }
}

TEST(RequestReader, BodyOfTheLargestSize_IsAccepted) {
  RequestReader reader;
  const std::string body(64 * 1024, 'x');
  EXPECT_EQ(
      Feed(reader, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + body, 16 * 1024),
      Progress::kDone);
  EXPECT_EQ(reader.Take().body, body);
}

TEST(RequestReader, Expect100_IsReportedOnce_NotIfTheBodyHasArrived) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  RequestReader reader;
  ASSERT_EQ(Feed(reader, head, 1'000), Progress::kNeedsInput);
  EXPECT_TRUE(reader.TakeExpectation());
  EXPECT_FALSE(reader.TakeExpectation());
  RequestReader whole;
  ASSERT_EQ(Feed(whole, head + "ok", 1'000), Progress::kDone);
  EXPECT_FALSE(whole.TakeExpectation());
}

TEST(AppendResponse, WritesStatusHeadersAndBody) {
  const HttpResponse response{
      .status = 429, .body = "slow\n", .headers = {{"Retry-After", "3"}, {"X", "a\r\nY: b"}}};
  std::string out = "before ";
  AppendResponse(response, {}, out);
  EXPECT_EQ(out,
            "before HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nX: a  Y: b\r\n"
            "Cache-Control: no-store\r\nConnection: keep-alive\r\n"
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\nslow\n");
  std::string head;
  AppendResponse(response, {.with_body = false, .keep_alive = false}, head);
  EXPECT_THAT(head, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(head.ends_with("Content-Length: 5\r\n\r\n"));
  std::string empty;
  AppendResponse({.status = 204, .body = {}}, {}, empty);
  EXPECT_TRUE(empty.starts_with("HTTP/1.1 204 No Content\r\n"));
  EXPECT_EQ(empty.find("Content-"), std::string::npos);
}

}  // namespace
}  // namespace sluice
