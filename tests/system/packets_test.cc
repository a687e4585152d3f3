// The number of packets for answers: if checks are decided together, their answers are sent in the
// same packet.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "tests/support/http2_frame.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

constexpr char kRules[] = R"yaml(
domain: packets
rules:
  - name: counted
    match: {endpoint: /counted}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1000/s, burst: 1000}
  - name: blocked
    match: {endpoint: /blocked}
    limits: blocked
)yaml";

constexpr std::size_t kGrpcHeader = 5;

// A header field of HPACK: a literal, without indexing.
std::string Field(std::string_view name, std::string_view value) {
  std::string field(1, '\0');
  for (const std::string_view part : {name, value}) {
    field += static_cast<char>(part.size());
    field += part;
  }
  return field;
}

// Makes calls on one HTTP/2 connection without a library: a library would not show the packets.
class Caller {
 public:
  explicit Caller(const std::string& server) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(Address::Parse(server)->port);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    Send(kHttp2Preface + Http2Frame{.type = Http2Frame::kSettings}.Bytes());
  }

  ~Caller() { close(socket_); }

  // Sends `count` checks of `endpoint`, each for another user, in one packet.
  void Ask(const std::string& endpoint, int count) {
    std::string requests;
    for (int i = 0; i < count; ++i) requests += Request(endpoint);
    Send(requests);
    unanswered_ = count;
  }

  // Waits for all answers, which must come from `source`.
  void Hear(v1::Source source) {
    while (unanswered_ > 0) {
      ASSERT_TRUE(HearMore()) << unanswered_ << " answers are missing";
      while (const auto frame = Http2Frame::Take(heard_)) {
        if (frame->type != Http2Frame::kData) continue;
        v1::CheckLimitResponse answer;
        ASSERT_TRUE(answer.ParseFromString(frame->payload.substr(kGrpcHeader)));
        ASSERT_EQ(answer.source(), source);
        --unanswered_;
      }
    }
  }

  // The number of packets with data that were received so far.
  std::uint32_t packets() const {
    tcp_info info{};
    socklen_t size = sizeof(info);
    EXPECT_EQ(getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_data_segs_in;
  }

 private:
  std::string Request(const std::string& endpoint) {
    stream_ += 2;
    const std::string message =
        CheckOf("packets", endpoint, "user" + std::to_string(stream_)).SerializeAsString();
    const std::string headers = Field(":method", "POST") + Field(":scheme", "http") +
                                Field(":path", "/sluice.v1.RateLimiter/CheckLimit") +
                                Field(":authority", "packets") + Field("te", "trailers") +
                                Field("content-type", "application/grpc");
    const std::string body =
        '\0' + BigEndian(static_cast<std::uint32_t>(message.size()), 4) + message;
    return Http2Frame{.type = Http2Frame::kHeaders,
                      .stream = stream_,
                      .payload = headers,
                      .flags = Http2Frame::kEndHeaders}
               .Bytes() +
           Http2Frame{.type = Http2Frame::kData,
                      .stream = stream_,
                      .payload = body,
                      .flags = Http2Frame::kEndStream}
               .Bytes();
  }

  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  bool HearMore() {
    pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, 10'000) != 1) return false;
    std::array<char, 65536> buffer{};
    const ssize_t size = recv(socket_, buffer.data(), buffer.size(), 0);
    if (size <= 0) return false;
    heard_.append(buffer.data(), static_cast<std::size_t>(size));
    return true;
  }

  const int socket_;
  std::uint32_t stream_ = 0xffffffff;  // the first call is on stream 1
  std::string heard_;
  int unanswered_ = 0;
};

constexpr int kCallers = 8;
constexpr int kCalls = 16;  // of each caller in a round
// With twice as many rounds, callers would have to send WINDOW_UPDATEs.
constexpr int kRounds = 20;
// If answers that are ready together are sent together, the mean is 5 to 8 answers in a packet.
// Otherwise, it is 1 to 2, by chance.
constexpr double kFew = 3;

// The mean number of answers in a packet, after kRounds rounds to warm up. All answers to checks of
// `endpoint` must come from `source`.
double AnswersPerPacket(const SluiceServer& server, const std::string& endpoint,
                        v1::Source source) {
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.push_back(std::make_unique<Caller>(server.grpc_address()));
  }
  std::uint32_t packets = 0;
  for (int round = 0; round < 2 * kRounds; ++round) {
    const bool warm = round >= kRounds;
    for (auto& caller : callers) {
      if (warm) packets -= caller->packets();
      caller->Ask(endpoint, kCalls);
    }
    for (auto& caller : callers) {
      caller->Hear(source);
      if (testing::Test::HasFatalFailure()) return 0;
      if (warm) packets += caller->packets();
    }
  }
  return 1. * kCallers * kCalls * kRounds / packets;
}

TEST(Packets, AnswersFromOneReplyOfRedis_AreSentTogether) {
  RedisServer redis;
  Fleet fleet({.rules = kRules, .servers = 1}, &redis);
  EXPECT_GT(AnswersPerPacket(fleet.server(0), "/counted", v1::SOURCE_STORE), kFew);
}

TEST(Packets, CallsReceivedTogether_AreAnsweredTogether) {
  Fleet fleet({.rules = kRules, .servers = 1}, nullptr);
  EXPECT_GT(AnswersPerPacket(fleet.server(0), "/blocked", v1::SOURCE_RULE), kFew);
}

}  // namespace
}  // namespace sluice::test
