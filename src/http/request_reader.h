// Reads one request out of bytes, by Beast's parser; and writes a response.
//
// One thread at a time.
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

  // Reads the front of `input` and sets `used` to how much of it is done with; the rest is to be
  // given again, with more behind it.
  Progress Read(std::string_view input, std::size_t& used);

  // After kRefused: 400, 413 (a body over 64 KiB) or 431 (headers over 16 KiB).
  int status() const { return status_; }

  // Whether the client waits for "100 Continue" before it sends the body. True once.
  bool TakeExpectation();

  // After kDone. The peer is left to the caller.
  HttpRequest Take();
  bool keep_alive() const;

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
  int status_ = 0;
};

struct ResponseForm {
  bool with_body = true;  // not for HEAD: it has the length of the GET's
  bool keep_alive = true;
};

// Appends `response` to `out`. Control characters in headers become spaces.
void AppendResponse(const HttpResponse& response, const ResponseForm& form, std::string& out);

}  // namespace sluice
