// A gRPC call over HTTP/2: splits received data into messages and reports the final status.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "client/grpc_status.h"

namespace sluice {

// Returns gRPC's header, followed by `message`. The header is a zero byte (not compressed) and the
// size in four bytes.
std::string GrpcFrame(std::string_view message);

class GrpcCall {
 public:
  virtual ~GrpcCall() = default;

  // The connection calls these functions with the response: headers, parts of the body, trailers,
  // the end. `http2_error`: 0 if there is no error.
  void OnHeader(std::string_view name, std::string_view value);
  void OnData(std::string_view data);
  void OnClose(std::uint32_t http2_error);

  // Copies up to `size` bytes of the request to `buffer`. Returns the number of bytes; 0 if none
  // are ready yet. Sets `ended` at the end of the request.
  std::size_t TakeBody(char* buffer, std::size_t size, bool& ended);

 protected:
  virtual void OnMessage(std::string_view message) = 0;

  // The last callback of the call. A connection that is lost makes no callbacks.
  virtual void OnStatus(const GrpcStatus& status) = 0;

  // Resets an ended call for reuse. Keeps allocated memory.
  void Restart();

  // The framed request. The bytes from taken_ on are unsent.
  std::string request_;
  // Whether request_ is complete: nothing will be appended.
  bool request_complete_ = false;

  std::size_t unsent() const { return request_.size() - taken_; }

 private:
  // Calls OnMessage for each complete message at the front of `data`. Returns the size of all these
  // messages in bytes, with their headers.
  std::size_t CutMessages(std::string_view data);
  GrpcStatus Status(std::uint32_t http2_error) const;

  std::size_t taken_ = 0;  // bytes of request_ already sent
  std::string partial_;    // an incomplete message
  int http_status_ = 0;
  int code_ = -1;  // grpc-status; -1: not received yet
  std::string message_;
  bool compressed_ = false;  // whether a message was compressed, which is not supported
};

}  // namespace sluice
