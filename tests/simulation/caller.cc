#include "tests/simulation/caller.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct Caller::Callbacks {
  static Caller& Of(void* user) { return *static_cast<Caller*>(user); }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t, void* user) {
    const std::string_view key(reinterpret_cast<const char*>(name), name_size);
    const auto call = Of(user).open_.find(frame->hd.stream_id);
    if (key != "grpc-status" || call == Of(user).open_.end()) return 0;
    call->second.status =
        std::atoi(std::string(reinterpret_cast<const char*>(value), value_size).c_str());
    return 0;
  }
  static int OnData(nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* data,
                    std::size_t size, void* user) {
    const auto call = Of(user).open_.find(stream);
    if (call == Of(user).open_.end()) return 0;
    call->second.received.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int OnStreamClose(nghttp2_session*, std::int32_t stream, std::uint32_t, void* user) {
    Of(user).End(stream);
    return 0;
  }
  static ssize_t ReadBody(nghttp2_session*, std::int32_t stream, std::uint8_t* out,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                          void* user) {
    Open& call = Of(user).open_.at(stream);
    const std::size_t n = std::min(size, call.body.size() - call.sent);
    std::memcpy(out, call.body.data() + call.sent, n);
    call.sent += n;
    if (call.sent == call.body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(n);
  }
};

Caller::Caller(World& world, std::shared_ptr<Link> link) : world_(world), link_(std::move(link)) {
  link_->Join(this);
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::OnStreamClose);
  nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  Send();
}

Caller::~Caller() {
  if (link_) std::exchange(link_, nullptr)->CloseRemote();
  nghttp2_session_del(session_);
}

int Caller::Call(std::string_view method, const std::string& request, Duration timeout,
                 OnOutcome on_outcome) {
  const std::string path = "/sluice.v1.RateLimiter/" + std::string(method);
  const std::string grpc_timeout = std::to_string(timeout.count()) + "u";
  std::vector<nghttp2_nv> headers{
      Header(":method", "POST"), Header(":scheme", "http"),
      Header(":path", path),     Header(":authority", "sluice"),
      Header("te", "trailers"),  Header("content-type", "application/grpc"),
  };
  if (timeout.count() > 0) headers.push_back(Header("grpc-timeout", grpc_timeout));
  const nghttp2_data_provider body{.source = {}, .read_callback = Callbacks::ReadBody};
  const int stream =
      nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &body, nullptr);
  test::Require(stream > 0, "no stream is left for a call");
  const auto size = static_cast<std::uint32_t>(request.size());
  Open& call = open_[stream];
  call.on_outcome = std::move(on_outcome);
  call.body = {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
               static_cast<char>(size >> 8), static_cast<char>(size)};
  call.body += request;
  Send();
  return stream;
}

void Caller::Cancel(int stream) {
  const auto call = open_.find(stream);
  if (call == open_.end() || !link_) return;
  call->second.canceled = true;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  Send();
}

void Caller::Receive(std::string_view bytes) {
  const ssize_t taken = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  test::Require(taken == static_cast<ssize_t>(bytes.size()), "the server sent invalid HTTP/2");
  Send();
}

void Caller::Send() {
  if (!link_) return;
  const std::uint8_t* data = nullptr;
  for (ssize_t n = 0; (n = nghttp2_session_mem_send(session_, &data)) > 0;) {
    link_->ToWire({reinterpret_cast<const char*>(data), static_cast<std::size_t>(n)});
  }
}

void Caller::OnClosed() {
  link_.reset();
  while (!open_.empty()) {
    open_.begin()->second.status = -1;
    End(open_.begin()->first);
  }
}

void Caller::End(int stream) {
  auto call = open_.extract(stream);
  if (call.empty()) return;
  Open& ended = call.mapped();
  Outcome outcome{.status = ended.canceled ? -1 : ended.status, .response = {}, .at = world_.now()};
  if (outcome.status == 0) {
    if (ended.received.size() < 5) ++unexpected_;
    outcome.response = ended.received.substr(std::min<std::size_t>(5, ended.received.size()));
  }
  ended.on_outcome(outcome);
}

}  // namespace sluice::simulation
