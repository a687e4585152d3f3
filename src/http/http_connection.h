// One HTTP connection: read a request, answer it, and again, until either side has had enough.
//
// On the thread of its executor only. Keeps itself alive while an operation is under way.
#pragma once

#include <memory>
#include <optional>

#include <utility>  // for Boost 1.74, which forgets it

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core.hpp>

#include "http/router.h"

namespace sluice {

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `router` must outlive the connection.
  HttpConnection(Socket socket, const Router& router)
      : stream_(std::move(socket)), router_(router) {}

  void Read();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void OnRead(boost::beast::error_code error);
  void Write(BeastResponse response);
  void OnWritten(boost::beast::error_code error);

  boost::beast::basic_stream<boost::asio::generic::stream_protocol> stream_;
  const Router& router_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;  // a parser reads one request
  std::optional<BeastResponse> response_;
};

}  // namespace sluice
