// Rows about frames that are not part of a request, such as SETTINGS and PING, and about connection
// errors.
#include "tests/rpc/door_table.h"

namespace sluice::test {
namespace {

using F = Http2Frame;

std::string Hello(std::uint32_t stream = 1) { return UnaryRequest(kEcho, "hello", stream); }

// Sends these bytes, then a call.
DoorRow::Steps Before(const std::string& bytes) { return Sends(bytes + Hello()); }

std::string Times(int count, const std::string& bytes) {
  std::string all;
  for (int i = 0; i < count; ++i) all += bytes;
  return all;
}

// Sends only these bytes. The outcome is the health of the connection, without streams.
DoorRow Only(std::string name, const std::string& bytes, std::string expected) {
  return {
      .name = std::move(name), .run = Sends(bytes), .expected = std::move(expected), .streams = 0};
}

DoorRow Only(std::string name, const std::string& bytes, Differs differs) {
  return {.name = std::move(name),
          .run = Sends(bytes),
          .expected = "",
          .differs = std::move(differs),
          .streams = 0};
}

constexpr char kProtocolError[] = "goaway PROTOCOL_ERROR";
constexpr char kFlowControlError[] = "goaway FLOW_CONTROL_ERROR";

std::string Priority(std::uint32_t on) { return BigEndian(on, 4) + '\x10'; }

std::vector<DoorRow> Beginnings() {
  const auto raw = [](const std::string& bytes) {
    return [bytes](RawConnection& connection, const Seen&) { connection.Send(bytes); };
  };
  return {
      {.name = "PrefaceWrong",
       .run = raw("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
       .differs = Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"},
       .streams = 0},
      {.name = "PrefaceOfHttp1",
       .run = raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
       .differs = Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"},
       .streams = 0},
      {.name = "PrefaceWithoutSettings",
       .run = raw(kHttp2Preface + Hello()),
       .differs = Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"},
       .streams = 0},
      {.name = "PrefaceByteByByte",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.SendSlowly(kHttp2Preface + Setting(4, 100'000) + Hello());
           },
       .expected = kEchoed},
  };
}

std::vector<DoorRow> Settings() {
  return {
      {.name = "SettingUnknown", .run = Before(Setting(0xABC, 1)), .expected = kEchoed},
      {.name = "SettingsAFew", .run = Before(Times(5, Setting(3, 100))), .expected = kEchoed},
      {.name = "SettingsFlood",
       .run = Before(Times(5'000, Setting(3, 100))),
       .differs = Differs{kUnchecked, "open; goaway ENHANCE_YOUR_CALM", "200 0 'hello'"}},
      {.name = "SettingTableSizeZero", .run = Before(Setting(1, 0)), .expected = kEchoed},
      Only("SettingAckUnasked", FrameOf(F::kSettings, "", F::kAck),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("SettingAckWithPayload", FrameOf(F::kSettings, std::string(6, '\0'), F::kAck),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
      Only("SettingOfSevenBytes", FrameOf(F::kSettings, std::string(7, '\0')),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
      Only("SettingOnAStream", FrameOf(F::kSettings, "", 0, 1),
           Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"}),
      Only("SettingWindowTooLarge", Setting(4, 0x8000'0000), kFlowControlError),
      Only("SettingFrameSizeTooSmall", Setting(5, 100), kProtocolError),
      Only("SettingPushOfTwo", Setting(2, 2), kProtocolError),
  };
}

std::vector<DoorRow> Pings() {
  return {
      {.name = "PingBeforeACall", .run = Before(Ping()), .expected = kEchoed},
      {.name = "PingFlood",
       .run = Sends(Times(1000, Ping())),
       .expected = "goaway ENHANCE_YOUR_CALM",
       .streams = 0},
      {.name = "PingAckUnasked",
       .run = Before(FrameOf(F::kPing, "12345678", F::kAck)),
       .expected = kEchoed},
      Only("PingOfSevenBytes", Ping("1234567"),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
      Only("PingOnAStream", FrameOf(F::kPing, "12345678", 0, 1),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
  };
}

std::vector<DoorRow> Others() {
  const std::string goaway = FrameOf(F::kGoaway, BigEndian(0, 4) + BigEndian(0, 4));
  return {
      {.name = "UnknownFrame",
       .run = Before(FrameOf(0x42, "anything", 0x7F, 0)),
       .expected = kEchoed},
      {.name = "UnknownFrameOnAStream",
       .run =
           Sends(Echo().Frame() + FrameOf(0x42, "anything", 0, 1) + Data(Message("hello"), kEnd)),
       .expected = kEchoed},
      {.name = "PriorityOfAnIdleStream",
       .run = Before(FrameOf(F::kPriority, Priority(0), 0, 7)),
       .expected = kEchoed},
      Only("PriorityOnNoStream", FrameOf(F::kPriority, Priority(0)),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      {.name = "PriorityOfFourBytes",
       .run = Sends(FrameOf(F::kPriority, "1234", 0, 1) + Hello(3)),
       .differs =
           Differs{kUnchecked, "open | open; goaway FRAME_SIZE_ERROR", "open | 200 0 'hello'"},
       .streams = 2},
      {.name = "PriorityInHeaders",
       .run = Sends(
           FrameOf(F::kHeaders, Priority(0) + Echo().Block(), F::kEndHeaders | F::kHasPriority, 1) +
           Data(Message("hello"), kEnd)),
       .expected = kEchoed},
      {.name = "PriorityOnItself",
       .run = Before(FrameOf(F::kPriority, Priority(1), 0, 1)),
       .expected = kEchoed},
      {.name = "GoawayThenNothing",
       .run = Before(goaway),
       .differs = Differs{kGoodbye, "200 0 'hello'; closed", "200 0 'hello'"}},
      {.name = "GoawayInACall",
       .run = Sends(Echo().Frame() + goaway + Data(Message("hello"), kEnd)),
       .differs = Differs{kGoodbye, "200 0 'hello'; closed", "200 0 'hello'"}},
      Only("GoawayOnAStream", FrameOf(F::kGoaway, std::string(8, '\0'), 0, 1),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("GoawayOfFourBytes", FrameOf(F::kGoaway, "1234"),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
      Only("PushPromise",
           FrameOf(F::kPushPromise, BigEndian(2, 4) + Echo().Block(), F::kEndHeaders, 1),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("FrameTooLarge", Echo().Frame() + Data(std::string(16'385, 'x')),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
  };
}

std::vector<DoorRow> Headers() {
  const std::string block = Echo().Block();
  const std::string rest = Data(Message("hello"), kEnd);
  return {
      {.name = "PaddedHeaders",
       .run = Sends(FrameOf(F::kHeaders, '\x05' + block + std::string(5, '\0'),
                            F::kEndHeaders | F::kPadded, 1) +
                    rest),
       .differs = Differs{kNoPadding, "200 0 'hello'", "200 * reset NO_ERROR; closed"}},
      {.name = "PaddedData",
       .run = Sends(Echo().Frame() +
                    Data('\x05' + Message("hello") + std::string(5, '\0'), kEnd | F::kPadded)),
       .differs = Differs{kNoPadding, "200 0 'hello'", "*reset PROTOCOL_ERROR"}},
      Only("PaddedTooMuch", Echo().Frame() + Data("\x0fhello", F::kPadded),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      {.name = "ContinuedHeaders", .run = Sends(Echo().Frames(20) + rest), .expected = kEchoed},
      {.name = "ContinuedByEmptyFrames",
       .run = Sends(FrameOf(F::kHeaders, block, 0, 1) + FrameOf(F::kContinuation, "", 0, 1) +
                    FrameOf(F::kContinuation, "", F::kEndHeaders, 1) + rest),
       .expected = kEchoed},
      Only("ContinuedForEver",
           FrameOf(F::kHeaders, block, 0, 1) + Times(5'000, FrameOf(F::kContinuation, "", 0, 1)),
           Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"}),
      Only("ContinuationAlone", FrameOf(F::kContinuation, block, F::kEndHeaders, 1),
           Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"}),
      Only("ContinuationInterrupted", FrameOf(F::kHeaders, block, 0, 1) + Ping(),
           Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"}),
      Only("ContinuationOfAnother",
           FrameOf(F::kHeaders, block, 0, 1) + FrameOf(F::kContinuation, "", F::kEndHeaders, 3),
           Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"}),
      Only("HeadersOnNoStream", FrameOf(F::kHeaders, block, F::kEndHeaders, 0),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("HeadersOnAnEvenStream", Echo().Frame(0, 2),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("HeadersOnALowerStream", Hello(5) + Echo().Frame(0, 3), "alive"),
      {.name = "HeadersOnAHigherStream",
       .run = Sends(Hello(3)),
       .expected = "open | 200 0 'hello'",
       .streams = 2},
      Only("HeadersEmpty", FrameOf(F::kHeaders, "", F::kEndHeaders, 1), "alive"),
      Only("FieldOfUnknownIndex", FrameOf(F::kHeaders, "\xff\x7f", F::kEndHeaders, 1),
           Differs{kNoGoaway, "goaway COMPRESSION_ERROR", "closed"}),
      Only("FieldCutOff",
           FrameOf(F::kHeaders, block.substr(0, block.size() - 3), F::kEndHeaders, 1),
           Differs{kNoGoaway, "goaway COMPRESSION_ERROR", "closed"}),
      Only("FieldTableTooLarge",
           FrameOf(F::kHeaders, "\x3f\xff\xff\x7f" + block, F::kEndHeaders, 1),
           Differs{kNoGoaway, "goaway COMPRESSION_ERROR", "closed"}),
  };
}

std::vector<DoorRow> Closed() {
  const auto after_reply = [](const std::string& bytes) {
    return [bytes](RawConnection& connection, const Seen&) {
      connection.SendPreface();
      connection.Send(Hello());
      connection.AwaitEnd(1);
      connection.Send(bytes);
    };
  };
  const std::string held = UnaryRequest("/test.Unary/Hold", "x");
  return {
      {.name = "DataAfterEnd",
       .run = Sends(held + Data(Message("more"))),
       .differs = Differs{kUnchecked, "open; goaway STREAM_CLOSED", "open"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "HeadersAfterEnd",
       .run = Sends(held + Echo().Frame(kEnd)),
       .differs = Differs{kUnchecked, "open; goaway STREAM_CLOSED", "open"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      {.name = "DataAfterReply", .run = after_reply(Data("x")), .expected = kEchoed},
      {.name = "WindowUpdateAfterReply",
       .run = after_reply(WindowUpdate(10, 1)),
       .expected = kEchoed},
      Only("DataOnNoStream", Data("x", 0, 0),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("DataOnAnIdleStream", Data("x", 0, 1),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("ResetOfAnIdleStream", Reset(8, 1),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("ResetOnNoStream", Reset(8, 0), Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("ResetOfThreeBytes", Echo().Frame() + FrameOf(F::kResetStream, "123", 0, 1),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
      Only("WindowUpdateOfAnIdleStream", WindowUpdate(1, 1),
           Differs{kUnchecked, "goaway PROTOCOL_ERROR", "alive"}),
      Only("WindowUpdateOfThreeBytes", FrameOf(F::kWindowUpdate, "123"),
           Differs{kNoGoaway, "goaway FRAME_SIZE_ERROR", "closed"}),
      Only("WindowUpdateOfNothing", WindowUpdate(0, 0),
           Differs{kNoGoaway, "goaway PROTOCOL_ERROR", "closed"}),
      {.name = "WindowUpdateOfNothingOnAStream",
       .run = Sends(held + WindowUpdate(0, 1)),
       .differs = Differs{kNoGoaway, "open; goaway PROTOCOL_ERROR", "*; closed"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
      Only("WindowTooLarge", Times(2, WindowUpdate(0x7FFF'FFFF, 0)),
           Differs{kUnchecked, "goaway FLOW_CONTROL_ERROR", "alive"}),
      {.name = "WindowTooLargeOfAStream",
       .run = Sends(held + Times(2, WindowUpdate(0x7FFF'FFFF, 1))),
       .differs = Differs{kUnchecked, "reset FLOW_CONTROL_ERROR", "open"},
       .canceled = 1,
       .grpc_canceled = DoorRow::kAnyNumber},
  };
}

}  // namespace

std::vector<DoorRow> FrameRows() {
  std::vector<DoorRow> all;
  for (const auto& rows : {Beginnings(), Settings(), Pings(), Others(), Headers(), Closed()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace sluice::test
