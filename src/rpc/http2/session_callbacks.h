// nghttp2's callbacks, options and header fields for Session.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <string_view>

#include "rpc/http2/session.h"

namespace sluice::rpc::http2 {

struct Session::Callbacks {
  // Shared by all sessions and never destroyed.
  static const nghttp2_session_callbacks* All();
  static const nghttp2_option* Options();

  // nghttp2_data_source_read_callback.
  static ssize_t TakeOutput(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                            std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                            void* session);

 private:
  static int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void* session);
  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* session);
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t flags, void* session);
  static int OnData(nghttp2_session*, std::uint8_t flags, std::int32_t id, const std::uint8_t* data,
                    std::size_t size, void* session);
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* session);
  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* session);
  static int OnStreamClose(nghttp2_session*, std::int32_t id, std::uint32_t error, void* session);
};

// A header field to send. Field copies nothing, so its texts must never be destroyed; CopiedField
// copies the value.
nghttp2_nv Field(std::string_view name, std::string_view value);
nghttp2_nv CopiedField(std::string_view name, std::string_view value);

}  // namespace sluice::rpc::http2
