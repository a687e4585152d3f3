// Rows about streams, canceling, trailers and flow control.
#include "tests/rpc/door_table.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

constexpr std::uint32_t kCancel = 8;
constexpr std::uint16_t kInitialWindow = 4;

RequestHeaders Unary(std::string_view method) {
  return RequestHeaders("/test.Unary/" + std::string(method));
}

RequestHeaders Stream(std::string_view method) {
  return RequestHeaders("/test.Stream/" + std::string(method));
}

// Waits until a handler serves the call.
void AwaitServed(const Seen& seen) {
  WaitUntil(std::chrono::seconds(30), [&] { return seen.served > 0; });
}

// Sends `first`, waits until a handler serves the call, then sends `second`.
DoorRow::Steps Around(const std::string& first, const std::string& second) {
  return [=](RawConnection& connection, const Seen& seen) {
    connection.SendPreface();
    connection.Send(first);
    AwaitServed(seen);
    connection.Send(second);
  };
}

// Sends `first`, waits for `bytes` bytes of DATA from the server, then sends `second`.
DoorRow::Steps AfterBytes(std::size_t bytes, const std::string& first, const std::string& second) {
  return [=](RawConnection& connection, const Seen&) {
    connection.SendPreface();
    connection.Send(first);
    connection.AwaitData(1, bytes);
    connection.Send(second);
  };
}

std::vector<DoorRow> Streams() {
  const std::string two = Data(Message("a")) + Data(Message("b"));
  const std::string too_large = Message(std::string(kMaxMessage + 1, 'x'));
  return {
      {.name = "StreamOfThree",
       .run = Sends(Stream("Echo").Frame() + two + Data(Message("c"), kEnd)),
       .expected = "200 0 'a' 'b' 'c'"},
      {.name = "StreamInOneFrame",
       .run = Sends(Stream("Echo").Frame() + Data(Message("a") + Message("b"), kEnd)),
       .expected = "200 0 'a' 'b'"},
      {.name = "StreamOfNone", .run = Sends(Stream("Count").Frame(kEnd)), .expected = "200 0 '0'"},
      {.name = "StreamOfNothingBack",
       .run = Sends(Stream("Echo").Frame(kEnd)),
       .expected = "200 0 only"},
      {.name = "StreamHalfClosedLater",
       .run = AfterBytes(12, Stream("Echo").Frame() + two, Data("", kEnd)),
       .expected = "200 0 'a' 'b'"},
      {.name = "StreamRefusedBeforeMessages",
       .run = Sends(Stream("Refuse").Frame()),
       .expected = "200 7 only reset NO_ERROR",
       .message = "not you"},
      {.name = "StreamRefusedAfterHalfClose",
       .run = Sends(Stream("Refuse").Frame(kEnd)),
       .expected = "200 7 only",
       .message = "not you"},
      {.name = "StreamEndedByServer",
       .run = Sends(Stream("First").Frame() + Data(Message("a"))),
       .expected = "200 0 only reset NO_ERROR"},
      {.name = "StreamEndedByServerMessagesFollow",
       .run = Sends(Stream("First").Frame() + two + two + two),
       .expected = "200 0 only reset NO_ERROR"},
      {.name = "StreamEndsInAMessage",
       .run = AfterBytes(6, Stream("Echo").Frame() + Data(Message("a")),
                         Data(Message("b").substr(0, 3), kEnd)),
       .differs = Differs{kUnchecked, "200 13 'a'", "200 0 'a'"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "StreamMessageTooLarge",
       .run = AfterBytes(6, Stream("Echo").Frame() + Data(Message("a")), Data(too_large)),
       .expected = "200 8 'a' reset NO_ERROR",
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "StreamMessageTooLargeAtOnce",
       .run = Sends(Stream("Echo").Frame() + Data(Message("a")) + Data(too_large)),
       .differs = Differs{kSameTurn, "200 8 reset NO_ERROR", "200 8 * reset NO_ERROR"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "StreamCompressedWithoutEncoding",
       .run =
           AfterBytes(6, Stream("Echo").Frame() + Data(Message("a")), Data(Message(Gzip("b"), 1))),
       .differs = Differs{kNotInflated, "200 13 'a' reset NO_ERROR", "200 'a'* open"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "StreamGzipNowAndThen",
       .run = Sends(Stream("Echo").Add("grpc-encoding", "gzip").Frame() + Data(Message("a")) +
                    Data(Message(Gzip("b"), 1), kEnd)),
       .expected = "200 0 'a' 'b'"},
      {.name = "StreamDeadline",
       .run = Sends(Stream("Echo").Add("grpc-timeout", "200m").Frame() + Data(Message("a"))),
       .expected = "200 4 'a' reset NO_ERROR",
       .canceled = 1},
      {.name = "StreamSlowlyRead",
       .run = Sends(Stream("Slow").Frame() + two + Data(Message("c"), kEnd)),
       .expected = "200 0 'a' 'b' 'c'"},
  };
}

std::vector<DoorRow> Cancels() {
  const std::string reset = Reset(kCancel);
  const std::string hello = Message("hello");
  const std::string held = UnaryRequest("/test.Unary/Hold", "x");
  return {
      {.name = "ResetAfterHeaders",
       .run = Sends(Unary("Echo").Frame() + reset),
       .expected = "left"},
      {.name = "ResetInAPrefix",
       .run = Sends(Unary("Echo").Frame() + Data(hello.substr(0, 3)) + reset),
       .expected = "left"},
      {.name = "ResetInAMessage",
       .run = Sends(Unary("Echo").Frame() + Data(hello.substr(0, 8)) + reset),
       .expected = "left"},
      {.name = "ResetAfterRequest", .run = Around(held, reset), .expected = "left", .canceled = 1},
      {.name = "ResetWithNoError",
       .run = Around(held, Reset(0)),
       .expected = "left",
       .canceled = 1},
      {.name = "ResetWithUnknownCode",
       .run = Around(held, Reset(0xABCD)),
       .expected = "left",
       .canceled = 1},
      {.name = "ResetTwice", .run = Around(held, reset + reset), .expected = "left", .canceled = 1},
      {.name = "ResetAfterReply",
       .run = AfterBytes(10, UnaryRequest("/test.Unary/Echo", "hello"), reset),
       .expected = "200 0 'hello' left"},
      {.name = "ResetInAStream",
       .run = AfterBytes(6, Stream("Echo").Frame() + Data(Message("a")), reset),
       .expected = "200 'a' left",
       .canceled = 1},
      {.name = "ResetOfAStreamAtOnce",
       .run = Around(Stream("Echo").Frame(), reset),
       .expected = "left",
       .canceled = 1},
      {.name = "ResetOfOneOfTwo",
       .run = Around(held, reset + UnaryRequest("/test.Unary/Echo", "two", 3)),
       .expected = "left | 200 0 'two'",
       .streams = 2,
       .canceled = 1},
      {.name = "DataAfterReset",
       .run = Around(Stream("Echo").Frame(), reset + Data(Message("a"))),
       .expected = "left",
       .canceled = 1},
      {.name = "MessageOfAnEndedCall",
       .run = AfterBytes(10, Unary("Echo").Frame() + Data(hello), Data(hello, kEnd)),
       .differs = Differs{kWaitsForTheEnd, "200 12 only", "200 0 'hello' reset NO_ERROR"}},
  };
}

std::vector<DoorRow> Trailers() {
  const auto trailers = [](const std::string& block, char flags) {
    return FrameOf(Http2Frame::kHeaders, block, static_cast<char>(flags | Http2Frame::kEndHeaders),
                   1);
  };
  const std::string field = Literal("x-late", "1");
  const std::string request = Unary("Echo").Frame() + Data(Message("hello"));
  return {
      {.name = "TrailersInRequest",
       .run = Sends(request + trailers(field, kEnd)),
       .expected = "200 0 'hello'"},
      {.name = "TrailersInStream",
       .run = Sends(Stream("Count").Frame() + Data(Message("a")) + trailers(field, kEnd)),
       .differs = Differs{kTrailers, "200 0 '1'", "200 1 only"},
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "TrailersWithoutEnd",
       .run = Sends(Stream("Count").Frame() + Data(Message("a")) + trailers(field, 0)),
       .differs = Differs{kTrailers, "reset PROTOCOL_ERROR", "200 * reset NO_ERROR; closed"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "TrailersWithPseudoField",
       .run = Sends(Stream("Count").Frame() + Data(Message("a")) +
                    trailers(Literal(":path", "/"), kEnd)),
       .differs = Differs{kTrailers, "reset PROTOCOL_ERROR", "200 1 only"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "TrailersAlone",
       .run = Sends(Unary("Echo").Frame() + trailers(field, kEnd)),
       .differs = Differs{kTrailers, "200 13 only", "200 1 only"}},
  };
}

std::vector<DoorRow> FlowControl() {
  return {
      {.name = "WindowZeroThenUpdate",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.Send(kHttp2Preface + Setting(kInitialWindow, 0));
             connection.Send(UnaryRequest("/test.Unary/Echo", "hello"));
             connection.AwaitHeaders(1);
             connection.AwaitPong();
             connection.Send(WindowUpdate(1000, 1) + Setting(kInitialWindow, 1000));
           },
       .expected = "200 0 'hello'"},
      {.name = "WindowZeroTrailersOnly",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.Send(kHttp2Preface + Setting(kInitialWindow, 0));
             connection.Send(UnaryRequest("/test.Unary/Fail", "hello"));
             connection.AwaitEnd(1);
             connection.Send(Setting(kInitialWindow, 1000));
           },
       .expected = "200 9 only"},
      {.name = "WindowByteByByte",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.Send(kHttp2Preface + Setting(kInitialWindow, 1));
             connection.Send(UnaryRequest("/test.Unary/Echo", "hello"));
             for (std::size_t i = 1; i < 10; ++i) {
               connection.AwaitData(1, i);
               connection.Send(WindowUpdate(1, 1));
             }
             connection.Send(Setting(kInitialWindow, 1000));
           },
       .expected = "200 0 'hello'"},
      {.name = "WindowOfTheConnection",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.Send(kHttp2Preface + Setting(kInitialWindow, 1'000'000));
             connection.Send(Stream("Sized").Frame() + Data(Message("100000"), kEnd));
             connection.AwaitData(1, 65'535);
             connection.Send(WindowUpdate(1'000'000, 0));
           },
       .expected = "200 0 <100000 bytes>"},
      {.name = "WindowShrinksBelowZero",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.Send(kHttp2Preface + Setting(kInitialWindow, 65'535));
             connection.Send(WindowUpdate(1'000'000, 0));
             connection.Send(Stream("Sized").Frame() + Data(Message("100000"), kEnd));
             connection.AwaitData(1, 65'535);
             connection.Send(Setting(kInitialWindow, 10));
             connection.Send(WindowUpdate(65'535, 1));
             connection.Send(WindowUpdate(65'535, 1));
           },
       .expected = "200 0 <100000 bytes>"},
      {.name = "WindowZeroThenReset",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.Send(kHttp2Preface + Setting(kInitialWindow, 0));
             connection.Send(Stream("Echo").Frame() + Data(Message("hello")));
             connection.AwaitHeaders(1);
             connection.Send(Reset(kCancel) + Setting(kInitialWindow, 1000));
           },
       .expected = "200 left",
       .canceled = 1},
  };
}

}  // namespace

std::vector<DoorRow> StreamRows() {
  std::vector<DoorRow> all;
  for (const auto& rows : {Streams(), Cancels(), Trailers(), FlowControl()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace sluice::test
