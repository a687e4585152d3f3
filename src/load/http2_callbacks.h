// nghttp2's callbacks for Http2Connection.
#pragma once

#include <cstddef>
#include <cstdint>

#include <nghttp2/nghttp2.h>

#include "load/http2_connection.h"

namespace sluice::load {

struct Http2Connection::Callbacks {
  // For a session whose user data is the connection. The caller must delete the result after it has
  // created the session.
  static nghttp2_session_callbacks* Make();

  // For a request whose data source is its Http2Stream.
  static ssize_t TakeBody(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                          void* connection);

 private:
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                      const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                      std::size_t value_size, std::uint8_t flags, void* connection);
  static int OnData(nghttp2_session* session, std::uint8_t flags, std::int32_t id,
                    const std::uint8_t* data, std::size_t size, void* connection);
  static int OnClose(nghttp2_session* session, std::int32_t id, std::uint32_t error,
                     void* connection);
  static int OnFrame(nghttp2_session* session, const nghttp2_frame* frame, void* connection);
  static int OnError(nghttp2_session* session, int error, const char* text, std::size_t size,
                     void* connection);
};

}  // namespace sluice::load
