// Clients connect, send random valid and invalid frames, and disconnect. The server survives this
// and serves the next caller. The test is most useful with sanitizers. SLUICE_TEST_SEEDS: the
// number of clients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/rpc/http2/served.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

class RandomClient {
 public:
  explicit RandomClient(unsigned seed) : random_(seed) {}

  // The bytes that one client sends.
  std::string Script() {
    std::string script = kHttp2Preface + Http2Frame{.type = Http2Frame::kSettings}.Bytes();
    for (int frames = Below(60); frames > 0; --frames) script += Frame().Bytes();
    spoils_ = Below(3) == 0;
    for (int i = spoils_ ? Below(5) : 0; i > 0; --i)
      script[Size(script.size())] ^= char(Below(256));
    return script;
  }

  // Whether bytes of the script may have been changed at random. If so, the server may wait for
  // more bytes, and not answer a PING.
  bool spoils() const { return spoils_; }

  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  std::size_t Size(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

 private:
  Http2Frame Frame() {
    switch (Below(10)) {
      case 0:
      case 1:
      case 2:
        return RequestFrame();
      case 3:
      case 4:
      case 5:
        return {.stream = Stream(), .payload = Body(), .flags = static_cast<char>(Below(2))};
      case 6:
        return {.type = Http2Frame::kResetStream, .stream = Stream(), .payload = BigEndian(8, 4)};
      case 7:
        return {.type = Http2Frame::kWindowUpdate,
                .stream = Below(2) == 0 ? 0 : Stream(),
                .payload = BigEndian(static_cast<std::uint32_t>(Below(100'000)), 4)};
      case 8:
        return {.type = Http2Frame::kSettings,
                .payload = BigEndian(4, 2) + BigEndian(static_cast<std::uint32_t>(Below(9)), 4)};
      default:
        return {.type = static_cast<char>(Below(12)),
                .stream = Stream(),
                .payload = std::string(Size(20), '\1'),
                .flags = static_cast<char>(Below(64))};
    }
  }

  Http2Frame RequestFrame() {
    static const std::vector<Headers> kChanges = {
        {},
        {{"x-hold", "1"}},
        {{":path", "/t/Chat"}},
        {{":path", "/t/Chat"}, {"x-deaf", "1"}},
        {{":path", "/t/Chat"}, {"x-send", "100000"}},
        {{":path", "/t/Chat"}, {"x-refuse", "1"}},
        {{"grpc-encoding", "gzip"}},
        {{"grpc-timeout", "1m"}, {"x-hold", "1"}},
        {{":path", "/t/Chat"}, {"grpc-timeout", "1m"}},
        {{"content-type", "text/html"}},
    };
    const int flags = (Below(10) > 0 ? Http2Frame::kEndHeaders : 0) | Below(2);
    ++requests_;
    return {.type = Http2Frame::kHeaders,
            .stream = static_cast<std::uint32_t>(2 * requests_ - 1),
            .payload = HeaderBlock(RequestHeaders("/t/Echo", kChanges[Size(kChanges.size())])),
            .flags = static_cast<char>(flags)};
  }

  std::string Body() {
    static const std::vector<std::string> kMessages = {"", "a", "end", "pause", "hello"};
    std::string body;
    for (int i = Below(3); i >= 0; --i) {
      body += Framed(kMessages[Size(kMessages.size())], Below(8) == 0);
    }
    if (Below(5) == 0) body += Framed(std::string(Size(60'000), 'l')).substr(0, 5 + Size(15'000));
    return Below(4) == 0 ? body.substr(0, Size(body.size() + 1)) : body;
  }

  std::uint32_t Stream() { return static_cast<std::uint32_t>(1 + 2 * Below(requests_ + 1)); }

  std::mt19937 random_;
  int requests_ = 0;
  bool spoils_ = false;
};

TEST(RandomFramesTest, Clients_SendRandomFrames_ServerServesTheNext) {
  const char* const wanted = std::getenv("SLUICE_TEST_SEEDS");
  const unsigned seeds = wanted == nullptr ? 300 : static_cast<unsigned>(std::atoi(wanted));
  Served served;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomClient random(seed);
    RawClient client(served.address(), false);
    client.SetReturnsWindow(random.Below(2) == 0);
    std::string script = random.Script();
    while (!script.empty()) {
      const std::size_t size = std::min(script.size(), 1 + random.Size(4'000));
      client.SendBytes(script.substr(0, size));
      script.erase(0, size);
      if (random.Below(4) == 0) served.ReleaseHeld();
      if (random.Below(4) == 0) served.Listen(random.Below(2) == 0);
    }
    client.SendPing();
    if (!random.spoils() && random.Below(4) > 0)
      client.AwaitPong();  // or until the connection ends
    if (seed % 20 != 0) continue;
    RawClient honest(served.address());
    honest.SendCall(1, "/t/Echo", "still here");
    ASSERT_EQ(honest.Await(1).data, Framed("still here"));
  }
  // Every stream ends with its connection, and every call ends when its handler finishes.
  served.ReleaseHeld();
  ASSERT_TRUE(WaitUntil(kSoon, [&] {
    served.ReleaseHeld();
    return served.metrics().find("sluice_grpc_calls_open 0") != std::string::npos &&
           served.metrics().find("sluice_grpc_connections 0") != std::string::npos;
  })) << served.metrics();
}

}  // namespace
}  // namespace sluice::test
