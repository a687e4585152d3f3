// Rows about messages: framing, compression, limits, statuses.
#include "tests/rpc/door_table.h"

namespace sluice::test {
namespace {

// A unary call whose only DATA frame has these bytes.
DoorRow::Steps Sending(const std::string& bytes) {
  return Sends(Echo().Frame() + Data(bytes, kEnd));
}

DoorRow::Steps SendingAs(std::string_view encoding, const std::string& bytes) {
  return Sends(Echo().Add("grpc-encoding", encoding).Frame() + Data(bytes, kEnd));
}

DoorRow::Steps Failing(std::string_view message) {
  return Sends(UnaryRequest("/test.Unary/Fail", message));
}

std::string ByteByByte(const std::string& bytes) {
  std::string frames;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    frames += Data(bytes.substr(i, 1), i + 1 == bytes.size() ? kEnd : char{0});
  }
  return frames;
}

const std::string kHello = Message("hello");

std::vector<DoorRow> Framing() {
  return {
      {.name = "NoMessageButHeaders",
       .run = Sends(Echo().Frame(kEnd)),
       .expected = "200 13 only",
       .message = "the request has no message"},
      {.name = "NoMessageButEmptyData", .run = Sending(""), .expected = "200 13 only"},
      {.name = "EmptyMessage", .run = Sending(Message("")), .expected = "200 0 ''"},
      {.name = "TwoMessagesInAFrame",
       .run = Sending(kHello + Message("two")),
       .differs = Differs{kWaitsForTheEnd, "200 12 only", "200 0 'hello'"}},
      {.name = "TwoMessagesInTwoFrames",
       .run = Sends(Echo().Frame() + Data(kHello) + Data(Message("two"), kEnd)),
       .differs = Differs{kWaitsForTheEnd, "200 12 only", "200 0 'hello'"}},
      {.name = "MessageInOneByteFrames",
       .run = Sends(Echo().Frame() + ByteByByte(kHello)),
       .expected = kEchoed},
      {.name = "RequestByteByByte",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.SendPreface();
             connection.SendSlowly(UnaryRequest("/test.Unary/Echo", "hello"));
           },
       .expected = kEchoed},
      {.name = "TwoRequestsInOneSend",
       .run = Sends(UnaryRequest("/test.Unary/Echo", "one", 1) +
                    UnaryRequest("/test.Unary/Echo", "two", 3)),
       .expected = "200 0 'one' | 200 0 'two'",
       .streams = 2},
      {.name = "TwoRequestsInterleaved",
       .run = Sends(Echo().Frame(0, 1) + Echo().Frame(0, 3) + Data(kHello.substr(0, 3), 0, 1) +
                    Data(kHello.substr(0, 7), 0, 3) + Data(kHello.substr(7), kEnd, 3) +
                    Data(kHello.substr(3), kEnd, 1)),
       .expected = "200 0 'hello' | 200 0 'hello'",
       .streams = 2},
      {.name = "EmptyDataBetween",
       .run = Sends(Echo().Frame() + Data("") + Data(kHello.substr(0, 5)) + Data("") + Data("") +
                    Data(kHello.substr(5)) + Data("", kEnd)),
       .expected = kEchoed},
      {.name = "HalfCloseLater",
       .run =
           [](RawConnection& connection, const Seen&) {
             connection.SendPreface();
             connection.Send(Echo().Frame() + Data(kHello));
             connection.AwaitPong();
             connection.Send(Data("", kEnd));
           },
       .differs = Differs{kWaitsForTheEnd, "200 0 'hello'", "200 0 'hello'*"}},
      {.name = "EndsInAPrefix", .run = Sending(kHello.substr(0, 3)), .expected = "200 13 only"},
      {.name = "EndsInAMessage", .run = Sending(kHello.substr(0, 8)), .expected = "200 13 only"},
      {.name = "EndsAfterAPrefix", .run = Sending(kHello.substr(0, 5)), .expected = "200 13 only"},
      {.name = "RestAfterTheMessage",
       .run = Sending(kHello + "xy"),
       .differs = Differs{kWaitsForTheEnd, "200 12 only", "200 0 'hello'"}},
      {.name = "FlagTwo",
       .run = Sending(Message("hello", 2)),
       .differs = Differs{kNotInflated, "200 13 only", "200 0 ''"}},
      {.name = "FlagAllOnes",
       .run = Sending(Message("hello", '\xff')),
       .differs = Differs{kNotInflated, "200 13 only", "200 0 ''"}},
  };
}

std::vector<DoorRow> Compression() {
  const std::string zipped = Gzip("hello");
  std::string corrupt = Message(zipped, 1);
  corrupt[corrupt.size() - 6] = static_cast<char>(corrupt[corrupt.size() - 6] + 1);
  return {
      {.name = "Gzip", .run = SendingAs("gzip", Message(zipped, 1)), .expected = kEchoed},
      {.name = "GzipNotUsed", .run = SendingAs("gzip", kHello), .expected = kEchoed},
      {.name = "GzipOfNothing",
       .run = SendingAs("gzip", Message(Gzip(""), 1)),
       .expected = "200 0 ''"},
      {.name = "Deflate",
       .run = SendingAs("deflate", Message(Deflate("hello"), 1)),
       .expected = kEchoed},
      {.name = "Identity", .run = SendingAs("identity", kHello), .expected = kEchoed},
      {.name = "CompressedWithoutEncoding",
       .run = Sending(Message(zipped, 1)),
       .differs = Differs{kNotInflated, "200 13 only", "200 0 '*'"}},
      {.name = "CompressedAsIdentity",
       .run = SendingAs("identity", Message(zipped, 1)),
       .differs = Differs{kNotInflated, "200 13 only", "200 0 '*'"}},
      {.name = "EncodingUnknownNotUsed",
       .run = SendingAs("snappy", kHello),
       .differs = Differs{kNotInflated, "200 12 only", "200 0 '*'"}},
      {.name = "EncodingUnknown",
       .run = SendingAs("snappy", Message(zipped, 1)),
       .differs = Differs{kNotInflated, "200 12 only", "200 0 '*'"}},
      {.name = "EncodingUpperCase",
       .run = SendingAs("GZIP", Message(zipped, 1)),
       .differs = Differs{kNotInflated, "200 12 only", "200 0 '*'"}},
      {.name = "EncodingEmpty",
       .run = SendingAs("", kHello),
       .differs = Differs{kNotInflated, "200 12 only", "200 0 '*'"}},
      {.name = "EncodingsTwo",
       .run = SendingAs("gzip,identity", Message(zipped, 1)),
       .differs = Differs{kNotInflated, "200 12 only", "200 0 '*'"}},
      {.name = "GzipCorrupt",
       .run = SendingAs("gzip", corrupt),
       .differs = Differs{kInternalReset, "200 13 only", "reset INTERNAL_ERROR"}},
      {.name = "GzipCutOff",
       .run = SendingAs("gzip", Message(zipped.substr(0, zipped.size() - 3), 1)),
       .differs = Differs{kInternalReset, "200 13 only", "reset INTERNAL_ERROR"}},
      {.name = "GzipThenMore",
       .run = SendingAs("gzip", Message(zipped + "more", 1)),
       .differs = Differs{kInternalReset, "200 13 only", "reset INTERNAL_ERROR"}},
      {.name = "GzipIsDeflate",
       .run = SendingAs("gzip", Message(Deflate("hello"), 1)),
       .differs = Differs{kInternalReset, "200 13 only", "reset INTERNAL_ERROR"}},
      {.name = "GzipEmptyMessage",
       .run = SendingAs("gzip", Message("", 1)),
       .differs = Differs{kNotInflated, "200 13 only", "200 0 ''"}},
  };
}

std::vector<DoorRow> Limits() {
  const std::string most(kMaxMessage, 'x');
  return {
      {.name = "AtTheLimit", .run = Sending(Message(most)), .expected = "200 0 <4096 bytes>"},
      {.name = "OverTheLimit",
       .run = Sending(Message(most + "x")),
       .differs = Differs{kResetsToo, "200 8 only", "200 8 only reset NO_ERROR"},
       .message = "Received message larger than max (4097 vs. 4096)"},
      {.name = "OverTheLimitBegun",
       .run = Sends(Echo().Frame() + Data(Message(most + "x").substr(0, 100))),
       .differs = Differs{kWholeMessage, "200 8 only reset NO_ERROR", "open"}},
      {.name = "OverTheLimitPrefixAlone",
       .run = Sends(Echo().Frame() + Data(Message(most + "x").substr(0, 5))),
       .differs = Differs{kWholeMessage, "200 8 only reset NO_ERROR", "open"}},
      {.name = "FourGigabytesAnnounced",
       .run = Sends(Echo().Frame() + Data(std::string("\0\xff\xff\xff\xff", 5))),
       .differs = Differs{kWholeMessage, "200 8 only reset NO_ERROR", "open"}},
      {.name = "InflatesToTheLimit",
       .run = SendingAs("gzip", Message(Gzip(most), 1)),
       .expected = "200 0 <4096 bytes>"},
      {.name = "InflatesOverTheLimit",
       .run = SendingAs("gzip", Message(Gzip(most + "x"), 1)),
       .differs = Differs{kResetsToo, "200 8 only", "200 8 only reset NO_ERROR"}},
      {.name = "InflatesToAMegabyte",
       .run = SendingAs("gzip", Message(Gzip(std::string(1024 * 1024, 'x')), 1)),
       .differs = Differs{kResetsToo, "200 8 only", "200 8 only reset NO_ERROR"}},
  };
}

std::vector<DoorRow> Statuses() {
  constexpr char kFailed[] = "200 9 only";
  return {
      {.name = "StatusWithoutMessage", .run = Failing(""), .expected = kFailed, .message = ""},
      {.name = "StatusPlain",
       .run = Failing("no such thing"),
       .expected = kFailed,
       .message = "no such thing"},
      {.name = "StatusPercent",
       .run = Failing("100 % of %41"),
       .expected = kFailed,
       .message = "100 %25 of %2541"},
      {.name = "StatusLines",
       .run = Failing("a\r\nb\tc"),
       .expected = kFailed,
       .message = "a%0D%0Ab%09c"},
      {.name = "StatusUtf8",
       .run = Failing("\u00fc\u2713"),
       .expected = kFailed,
       .message = "%C3%BC%E2%9C%93"},
      {.name = "StatusNotUtf8",
       .run = Failing("\xff\x7f"),
       .expected = kFailed,
       .message = "%FF%7F"},
  };
}

}  // namespace

std::vector<DoorRow> MessageRows() {
  std::vector<DoorRow> all;
  for (const auto& rows : {Framing(), Compression(), Limits(), Statuses()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace sluice::test
