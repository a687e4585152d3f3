#include "http/request_reader.h"

#include <utility>  // Boost 1.74 needs it but does not include it

#include <boost/beast/http.hpp>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace sluice {
namespace {

namespace http = boost::beast::http;

constexpr std::uint32_t kMaxHeaderBytes = 16 * 1024;
constexpr std::uint64_t kMaxBodyBytes = 64 * 1024;

int StatusOf(boost::beast::error_code error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

std::string Text(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Replaces control characters, so that a value cannot inject another header.
std::string Harmless(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return text;
}

// Whether every server agrees where the body ends. Beast treats a request whose last coding is not
// "chunked" as one without a body, and would read its body as the next request. It also accepts
// other codings before "chunked", and parameters, which another server may not know. RFC 9112,
// sections 6.1 and 6.3.
bool HasKnownEnd(const http::request_parser<http::string_body>& parser) {
  const auto& message = parser.get();
  const auto lines = message.count(http::field::transfer_encoding);
  if (lines == 0) return true;
  const auto coding = message[http::field::transfer_encoding];
  return lines == 1 && boost::beast::iequals(coding, "chunked") && message.version() >= 11;
}

// Whether there is one Host, as RFC 9112, section 3.2 requires. In HTTP/1.0, Host may be absent.
bool HasOneHost(const http::request_parser<http::string_body>& parser) {
  const auto count = parser.get().count(http::field::host);
  return count == 1 || (count == 0 && parser.get().version() < 11);
}

// Whether a line of `head` continues the previous line (obs-fold). Beast would accept it.
bool IsFolded(std::string_view head) {
  return head.starts_with(' ') || head.starts_with('\t') ||
         head.find("\n ") != std::string_view::npos || head.find("\n\t") != std::string_view::npos;
}

}  // namespace

struct RequestReader::Parser {
  Parser() {
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(kMaxBodyBytes);
  }

  // Beast adds trailers to the headers, so the headers are copied before Beast reads the body. A
  // client must not be able to add "Authorization" or attributes that the proxy has not seen.
  void OnHeaders() {
    for (const auto& field : parser.get()) {
      headers.emplace_back(Text(field.name_string()), Text(field.value()));
    }
    parser.eager(true);
  }

  http::request_parser<http::string_body> parser;  // stops after the headers
  HttpHeaders headers;
  bool expectation_taken = false;
};

RequestReader::RequestReader() : parser_(std::make_unique<Parser>()) {}
RequestReader::~RequestReader() = default;

RequestReader::Progress RequestReader::Read(std::string_view input, std::size_t& used) {
  auto& parser = parser_->parser;
  used = 0;
  while (!parser.is_done() && used < input.size()) {
    boost::beast::error_code error;
    const std::string_view rest = input.substr(used);
    // Within a chunked body, Beast asserts that `rest` has at least five bytes. Every such body
    // ends with "0", CRLF and CRLF, so more bytes will come.
    if (parser.is_header_done() && parser.chunked() && rest.size() < 5) break;
    const bool in_head = !parser.is_header_done();
    const std::size_t parsed =
        parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    if (in_head && IsFolded(rest.substr(0, parsed))) return Refuse(400);
    used += parsed;
    if (error == http::error::need_more) {
      // Beast limits unparsed bytes only in the headers, not between chunks or after them.
      return input.size() - used > kMaxHeaderBytes ? Refuse(431) : Progress::kNeedsInput;
    }
    if (error) return Refuse(StatusOf(error));
    if (!parser.is_header_done() || parser.eager()) continue;
    if (!HasKnownEnd(parser) || !HasOneHost(parser)) return Refuse(400);
    parser_->OnHeaders();
  }
  return parser.is_done() ? Progress::kDone : Progress::kNeedsInput;
}

RequestReader::Progress RequestReader::Refuse(int status) {
  status_ = status;
  return Progress::kRefused;
}

bool RequestReader::TakeExpectation() {
  const auto& parser = parser_->parser;
  if (!parser.is_header_done() || parser.is_done() || parser.get().version() < 11) return false;
  if (std::exchange(parser_->expectation_taken, true)) return false;
  return boost::beast::iequals(parser.get()[http::field::expect], "100-continue");
}

HttpRequest RequestReader::Take() {
  auto& message = parser_->parser.get();
  const std::string target = Text(message.target());
  const std::size_t mark = std::min(target.find('?'), target.size());
  HttpRequest request{.method = Text(message.method_string()),
                      .path = target.substr(0, mark),
                      .query = target.substr(std::min(mark + 1, target.size())),
                      .headers = std::move(parser_->headers),
                      .body = std::move(message.body()),
                      .peer = {}};
  return request;
}

bool RequestReader::keep_alive() const { return parser_->parser.get().keep_alive(); }

void AppendResponse(const HttpResponse& response, const ResponseForm& form, std::string& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\n", response.status,
                 Text(http::obsolete_reason(static_cast<http::status>(response.status))));
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(to, "{}: {}\r\n", Harmless(name), Harmless(value));
  }
  fmt::format_to(to, "Cache-Control: no-store\r\nConnection: {}\r\n",
                 form.keep_alive ? "keep-alive" : "close");
  if (response.status == 204) {
    out += "\r\n";
    return;
  }
  fmt::format_to(to, "Content-Type: {}\r\nContent-Length: {}\r\n\r\n",
                 Harmless(response.content_type), response.body.size());
  if (form.with_body) out += response.body;
}

}  // namespace sluice
