// Parses an HTTP request with Beast's parser, and serializes a response. Refuses requests that a
// proxy may read in another way: without exactly one Host, with folded headers, with control
// characters, or with a body whose end is not certain.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/http_message.h"

namespace sluice {

class RequestReader {
 public:
  RequestReader();
  ~RequestReader();

  enum class Progress : std::uint8_t { kNeedsInput, kDone, kRefused };

  // Parses `input` and sets `used` to the number of bytes consumed. The next call must pass the
  // remaining bytes again, followed by new ones.
  Progress Read(std::string_view input, std::size_t& used);

  // The HTTP status after kRefused: 400, 413 (a body over 64 KiB) or 431 (headers, trailers or a
  // chunk's extensions over 16 KiB).
  int status() const { return status_; }

  // Whether the client waits for "100 Continue" before it sends the body. Returns true only once.
  bool TakeExpectation();

  // Takes the request, without its peer and without trailers. REQUIRES: Read has returned kDone.
  HttpRequest Take();
  bool keep_alive() const;

 private:
  struct Parser;

  Progress Refuse(int status);

  const std::unique_ptr<Parser> parser_;
  int status_ = 0;
};

struct ResponseForm {
  bool with_body = true;  // false for HEAD: only the body's length is sent
  bool keep_alive = true;
};

// Appends `response` to `out`. Control characters in headers become spaces.
void AppendResponse(const HttpResponse& response, const ResponseForm& form, std::string& out);

}  // namespace sluice
