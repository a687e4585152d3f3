// A gRPC call over HTTP/2: cuts what arrives into messages, and tells how the call ended.
//
// One thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "load/grpc_status.h"
#include "load/http2_connection.h"

namespace sluice::load {

class GrpcCall : public Http2Stream {
 public:
  void OnHeader(std::string_view name, std::string_view value) final;
  void OnData(std::string_view data) final;
  void OnClose(std::uint32_t http2_error) final;
  std::size_t TakeBody(char* buffer, std::size_t size, bool& ended) final;

 protected:
  virtual void OnMessage(std::string_view message) = 0;

  // The last that is heard, unless the connection is lost.
  virtual void OnStatus(const GrpcStatus& status) = 0;

  // Makes a new call of one that is over; memory is kept.
  void Restart();

  // What is still to be sent, framed.
  std::string request_;
  // Nothing will be added to it.
  bool request_complete_ = false;

  std::size_t unsent() const { return request_.size() - taken_; }

 private:
  // The whole messages at the front of `data`; returns how many bytes they take.
  std::size_t CutMessages(std::string_view data);
  GrpcStatus Status(std::uint32_t http2_error) const;

  std::size_t taken_ = 0;  // of request_
  std::string partial_;    // the begin of a message
  int http_status_ = 0;
  int code_ = -1;  // grpc-status; -1: not yet here
  std::string message_;
  bool compressed_ = false;  // a message was, which we have not offered to read
};

}  // namespace sluice::load
