// Rows about the header fields of requests, and about timeouts.
#include <nghttp2/nghttp2.h>

#include <array>

#include "tests/rpc/door_table.h"
#include "tests/support/require.h"

namespace sluice::test {
namespace {

// A call with these headers and the message "hello".
DoorRow::Steps Calls(const RequestHeaders& headers) {
  return Sends(headers.Frame() + Data(Message("hello"), kEnd));
}

RequestHeaders Good() { return RequestHeaders(kEcho); }

RequestHeaders OfType(std::string_view type) { return Good().With("content-type", type); }

RequestHeaders To(std::string_view path) { return RequestHeaders(path); }

// Two calls with fields compressed as usual: Huffman-coded in the first call, from the dynamic
// table in the second.
std::string TwoCompressedCalls() {
  nghttp2_hd_deflater* deflater = nullptr;
  Require(nghttp2_hd_deflate_new(&deflater, 4096) == 0, "nghttp2");
  std::string bytes;
  for (const std::uint32_t stream : {1U, 3U}) {
    std::vector<nghttp2_nv> fields;
    const auto add = [&](const char* name, const char* value) {
      fields.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name)),
                        reinterpret_cast<std::uint8_t*>(const_cast<char*>(value)),
                        std::string_view(name).size(), std::string_view(value).size(),
                        NGHTTP2_NV_FLAG_NONE});
    };
    add(":method", "POST");
    add(":scheme", "http");
    add(":path", kEcho);
    add(":authority", "localhost");
    add("te", "trailers");
    add("content-type", "application/grpc");
    std::array<std::uint8_t, 1024> block;
    const auto size =
        nghttp2_hd_deflate_hd(deflater, block.data(), block.size(), fields.data(), fields.size());
    Require(size > 0, "nghttp2");
    bytes += FrameOf(Http2Frame::kHeaders, std::string(reinterpret_cast<char*>(block.data()), size),
                     Http2Frame::kEndHeaders, stream) +
             Data(Message("hello"), kEnd, stream);
  }
  nghttp2_hd_deflate_del(deflater);
  return bytes;
}

// Sends `bytes` after the client has acked the server's SETTINGS. From then on, the server's limits
// apply.
DoorRow::Steps AfterSettings(const std::string& bytes) {
  return [bytes](RawConnection& connection, const Seen&) {
    connection.SendPreface();
    connection.AwaitFrames(Http2Frame::kSettings, 2);
    connection.AwaitPong();
    connection.Send(bytes);
  };
}

RequestHeaders LargeBy(std::size_t bytes) { return Good().Add("x-large", std::string(bytes, 'x')); }

DoorRow Timeout(const std::string& name, std::string_view value, const std::string& seconds) {
  return {.name = "Timeout" + name,
          .run = Calls(To("/test.Unary/TimeLeft").Add("grpc-timeout", value)),
          .expected = "200 0 '" + seconds + "'"};
}

// A malformed timeout that gRPC accepts.
DoorRow LooseTimeout(const std::string& name, std::string_view value, const Differs& differs) {
  return {.name = "Timeout" + name,
          .run = Calls(To("/test.Unary/TimeLeft").Add("grpc-timeout", value)),
          .expected = "",
          .differs = differs};
}

DoorRow Expiring(const std::string& name, std::string_view value, int canceled) {
  return {.name = "Expires" + name,
          .run = Calls(To("/test.Unary/Hold").Add("grpc-timeout", value)),
          .expected = "",
          .differs = Differs{kResetsToo, "200 4 only", "200 4 only reset NO_ERROR"},
          .message = "Deadline Exceeded",
          .canceled = canceled};
}

}  // namespace

std::vector<DoorRow> HeaderRows() {
  return {
      {.name = "Plain", .run = Calls(Good()), .expected = kEchoed, .message = ""},
      {.name = "CompressedFieldsTwice",
       .run = Sends(TwoCompressedCalls()),
       .expected = "200 0 'hello' | 200 0 'hello'",
       .streams = 2},

      {.name = "TypeProto", .run = Calls(OfType("application/grpc+proto")), .expected = kEchoed},
      {.name = "TypeJson", .run = Calls(OfType("application/grpc+json")), .expected = kEchoed},
      {.name = "TypeParameter",
       .run = Calls(OfType("application/grpc;charset=utf-8")),
       .expected = kEchoed},
      {.name = "TypeWeb",
       .run = Calls(OfType("application/grpc-web")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeWebProto",
       .run = Calls(OfType("application/grpc-web+proto")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeOtherJson",
       .run = Calls(OfType("application/json")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeLonger",
       .run = Calls(OfType("application/grpcfoo")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeUpperCase",
       .run = Calls(OfType("Application/GRPC")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeEmpty",
       .run = Calls(OfType("")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeMissing",
       .run = Calls(Good().Without("content-type")),
       .differs = Differs{kAnyContentType, "415 only", "200 0 'hello'"}},
      {.name = "TypeDoubled",
       .run = Calls(Good().Add("content-type", "application/grpc")),
       .expected = kEchoed},

      {.name = "MethodGet",
       .run = Calls(Good().With(":method", "GET")),
       .differs = Differs{kUnknown, "405 only", "200 2 only reset NO_ERROR"}},
      {.name = "MethodPut",
       .run = Calls(Good().With(":method", "PUT")),
       .differs = Differs{kUnknown, "405 only", "200 2 only reset NO_ERROR"}},
      {.name = "MethodLowerCase",
       .run = Calls(Good().With(":method", "post")),
       .differs = Differs{kUnknown, "405 only", "200 2 only reset NO_ERROR"}},
      {.name = "MethodMissing",
       .run = Calls(Good().Without(":method")),
       .differs = Differs{kUnknown, "reset PROTOCOL_ERROR", "200 2 only reset NO_ERROR"}},
      {.name = "MethodDoubled",
       .run = Calls(Good().AddFirst(":method", "POST")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},

      {.name = "PathMissing",
       .run = Calls(Good().Without(":path")),
       .differs = Differs{kUnknown, "reset PROTOCOL_ERROR", "200 2 only reset NO_ERROR"}},
      {.name = "PathDoubled",
       .run = Calls(Good().AddFirst(":path", kEcho)),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "PathEmpty",
       .run = Calls(To("")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 12 only"}},
      {.name = "PathUnknownMethod",
       .run = Calls(To("/test.Unary/Nothing")),
       .expected = "200 12 only"},
      {.name = "PathUnknownService",
       .run = Calls(To("/nobody.At/Echo")),
       .expected = "200 12 only"},
      {.name = "PathSlash", .run = Calls(To("/")), .expected = "200 12 only"},
      {.name = "PathWithoutSlash",
       .run = Calls(To("test.Unary/Echo")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 12 only"}},
      {.name = "PathWithQuery",
       .run = Calls(To("/test.Unary/Echo?x=1")),
       .expected = "200 12 only"},
      {.name = "PathUpperCase", .run = Calls(To("/TEST.UNARY/ECHO")), .expected = "200 12 only"},
      {.name = "PathWithHost",
       .run = Calls(To("http://localhost/test.Unary/Echo")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 12 only"}},
      {.name = "PathUnknownBeforeMessage",
       .run = Sends(To("/test.Unary/Nothing").Frame()),
       .expected = "200 12 only reset NO_ERROR"},

      {.name = "SchemeMissing",
       .run = Calls(Good().Without(":scheme")),
       .differs = Differs{kUnknown, "reset PROTOCOL_ERROR", "200 2 only reset NO_ERROR"}},
      {.name = "SchemeDoubled",
       .run = Calls(Good().AddFirst(":scheme", "http")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "SchemeHttps", .run = Calls(Good().With(":scheme", "https")), .expected = kEchoed},
      {.name = "SchemeOther",
       .run = Calls(Good().With(":scheme", "ftp")),
       .differs = Differs{kUnknown, "200 0 'hello'", "200 2 only reset NO_ERROR"}},
      {.name = "AuthorityMissing",
       .run = Calls(Good().Without(":authority")),
       .differs = Differs{kUnknown, "reset PROTOCOL_ERROR", "200 2 only reset NO_ERROR"}},
      {.name = "AuthorityAsHost",
       .run = Calls(Good().Without(":authority").Add("host", "localhost")),
       .expected = kEchoed},
      {.name = "AuthorityDoubled",
       .run = Calls(Good().AddFirst(":authority", "localhost")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "TeMissing",
       .run = Calls(Good().Without("te")),
       .differs = Differs{kUnknown, "200 0 'hello'", "200 2 only reset NO_ERROR"}},
      {.name = "TeOther",
       .run = Calls(Good().With("te", "gzip")),
       .differs = Differs{kUnknown, "reset PROTOCOL_ERROR", "200 2 only reset NO_ERROR"}},

      {.name = "PseudoUnknown",
       .run = Calls(Good().AddFirst(":foo", "bar")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "PseudoOfResponses",
       .run = Calls(Good().AddFirst(":status", "200")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "PseudoAfterOthers",
       .run = Calls(Good().Without(":path").Add(":path", kEcho)),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "NameUpperCase",
       .run = Calls(Good().Add("X-Upper", "1")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "NameEmpty",
       .run = Calls(Good().Add("", "1")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "NameWithSpace",
       .run = Calls(Good().Add("x y", "1")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "ValueWithNewline",
       .run = Calls(Good().Add("x-odd", "a\nb")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "ValueWithZero",
       .run = Calls(Good().Add("x-odd", std::string_view("a\0b", 3))),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "ValueOfHighBytes", .run = Calls(Good().Add("x-odd", "\xff")), .expected = kEchoed},
      {.name = "ValueEmpty", .run = Calls(Good().Add("x-empty", "")), .expected = kEchoed},
      {.name = "Connection",
       .run = Calls(Good().Add("connection", "close")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "TransferEncoding",
       .run = Calls(Good().Add("transfer-encoding", "chunked")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "ContentLengthRight",
       .run = Calls(Good().Add("content-length", "10")),
       .expected = kEchoed},
      {.name = "ContentLengthWrong",
       .run = Calls(Good().Add("content-length", "11")),
       .differs = Differs{kUnchecked, "reset PROTOCOL_ERROR", "200 0 'hello'"}},
      {.name = "ReservedName", .run = Calls(Good().Add("grpc-foo", "1")), .expected = kEchoed},
      {.name = "AcceptEncodingOdd",
       .run = Calls(Good().Add("grpc-accept-encoding", "zstd,,x")),
       .expected = kEchoed},

      {.name = "MetadataOnce",
       .run = Sends(To("/test.Unary/Metadata").Add("x-one", "1").Frame() +
                    Data(Message("x-one"), kEnd)),
       .expected = "200 0 '1'"},
      {.name = "MetadataTwice",
       .run = Sends(To("/test.Unary/Metadata").Add("x-two", "1").Add("x-two", "2").Frame() +
                    Data(Message("x-two"), kEnd)),
       .expected = "200 5 only"},
      {.name = "MetadataUserAgent",
       .run = Sends(To("/test.Unary/Metadata").Add("user-agent", "me").Frame() +
                    Data(Message("user-agent"), kEnd)),
       .expected = "200 0 'me'"},
      {.name = "MetadataBinary",
       .run = Sends(To("/test.Unary/Metadata").Add("x-bin", "aGk=").Frame() +
                    Data(Message("x-bin"), kEnd)),
       .differs = Differs{kBinary, "200 0 'aGk='", "200 0 'hi'"}},
      {.name = "MetadataBinaryUnpadded",
       .run = Sends(To("/test.Unary/Metadata").Add("x-bin", "aGk").Frame() +
                    Data(Message("x-bin"), kEnd)),
       .differs = Differs{kBinary, "200 0 'aGk'", "200 0 'hi'"}},
      {.name = "MetadataOfTheProtocol",
       .run = Sends(To("/test.Unary/Metadata").Frame() + Data(Message("te"), kEnd)),
       .expected = "200 5 only"},

      {.name = "LargeFields", .run = Calls(LargeBy(7'000)), .expected = kEchoed},
      {.name = "AlmostTooLargeFields", .run = Calls(LargeBy(15'000)), .expected = kEchoed},
      {.name = "TooLargeFields",
       .run = AfterSettings(LargeBy(20'000).Frames(16'000) + Data(Message("hello"), kEnd)),
       .differs = Differs{kLargeFields, "200 8 only", "200 8 only reset NO_ERROR; closed"}},
      {.name = "FarTooLargeFields",
       .run = AfterSettings(LargeBy(60'000).Frames(16'000) + Data(Message("hello"), kEnd)),
       .differs = Differs{kLargeFields, "200 8 only", "200 8 only reset NO_ERROR; closed"}},
  };
}

std::vector<DoorRow> TimeoutRows() {
  return {
      {.name = "TimeoutNone",
       .run = Calls(To("/test.Unary/TimeLeft")),
       .expected = "200 0 'never'"},
      Timeout("OneSecond", "1S", "1"),
      Timeout("OneMinute", "1M", "60"),
      Timeout("OneHour", "1H", "3600"),
      Timeout("LeadingZeros", "00000090S", "90"),
      Timeout("MostNanoseconds", "99999999n", "0"),
      Timeout("MostMicroseconds", "99999999u", "100"),
      Timeout("MostMilliseconds", "99999999m", "100000"),
      Timeout("MostSeconds", "99999999S", "99999999"),
      Timeout("MostMinutes", "99999999M", "5999999940"),
      Timeout("MostHours", "99999999H", "never"),
      LooseTimeout("NineDigits", "100000000S",
                   {kLooseTimeouts, "200 0 'never'", "200 0 '100000000'"}),
      Timeout("Empty", "", "never"),
      Timeout("UnitAlone", "S", "never"),
      Timeout("NumberAlone", "5", "never"),
      Timeout("UnknownUnit", "5s", "never"),
      Timeout("Negative", "-1S", "never"),
      Timeout("Fraction", "1.5S", "never"),
      LooseTimeout("SpaceBefore", " 5S", {kLooseTimeouts, "reset PROTOCOL_ERROR", "200 0 '5'"}),
      LooseTimeout("SpaceBetween", "5 S", {kLooseTimeouts, "200 0 'never'", "200 0 '5'"}),
      Expiring("InANanosecond", "1n", DoorRow::kAnyNumber),
      Expiring("InAMicrosecond", "1u", DoorRow::kAnyNumber),
      Expiring("InFiftyMilliseconds", "50m", 1),
      Expiring("AtOnce", "0S", DoorRow::kAnyNumber),
  };
}

}  // namespace sluice::test
