#include "http/http_connection.h"

#include <chrono>

namespace sluice {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kMaxHeaderBytes = 16 * 1024;
constexpr std::size_t kMaxBodyBytes = 64 * 1024;
// For a request to come, and for an answer to be taken.
constexpr std::chrono::seconds kIdleTime(30);

// What the peer did wrong, where it can still be told.
std::optional<http::status> StatusOf(boost::beast::error_code error) {
  if (error == http::error::header_limit) return http::status::request_header_fields_too_large;
  if (error == http::error::body_limit) return http::status::payload_too_large;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
  if (error.category() == http::make_error_code(http::error::end_of_stream).category()) {
    return http::status::bad_request;
  }
  return {};
}

}  // namespace

void HttpConnection::Read() {
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(kMaxBodyBytes);
  stream_.expires_after(kIdleTime);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](boost::beast::error_code error, std::size_t) {
                     self->OnRead(error);
                   });
}

void HttpConnection::OnRead(boost::beast::error_code error) {
  if (!error) return Write(router_.Answer(parser_->get()));
  if (const auto status = StatusOf(error)) {
    BeastResponse response(*status, 11);
    response.keep_alive(false);
    response.prepare_payload();
    Write(std::move(response));
  }
}

void HttpConnection::Write(BeastResponse response) {
  response_ = std::move(response);
  stream_.expires_after(kIdleTime);
  http::async_write(stream_, *response_,
                    [self = shared_from_this()](boost::beast::error_code error, std::size_t) {
                      self->OnWritten(error);
                    });
}

void HttpConnection::OnWritten(boost::beast::error_code error) {
  if (error) return;
  if (response_->keep_alive()) return Read();
  stream_.socket().shutdown(Socket::shutdown_send, error);
}

}  // namespace sluice
