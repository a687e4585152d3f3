#include "rpc/http2/session.h"

#include <algorithm>
#include <array>

#include "rpc/http2/session_callbacks.h"
#include "rpc/http2/shard.h"
#include "rpc/http2/status_header.h"

namespace sluice::rpc::http2 {
namespace {

constexpr std::uint32_t kMaxStreams = 1'024;
constexpr std::int32_t kConnectionWindow = 1024 * 1024;
// The maximum number of open calls of probes. A client that watches the server's health has one.
constexpr int kMaxProbes = 16;

// Many resets of calls younger than this are an attack: no legitimate caller sets so short a
// deadline and retries at once.
constexpr std::chrono::milliseconds kYoung(1);
constexpr double kResetBurst = 1'000;
constexpr double kResetsPerSecond = 200;

// The limit for PING and SETTINGS frames between responses. Clients with keepalive send a PING
// every few seconds; clients that measure bandwidth send one per response.
constexpr double kControlBurst = 20;
constexpr double kControlsPerSecond = 1;

// How long and how many sent answers are kept: a reset arrives within a round trip.
constexpr std::chrono::seconds kCrossing(1);
constexpr std::size_t kMaxSentAnswers = 1'024;

std::uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

// The first header fields of a response.
const std::array<nghttp2_nv, 3>& ResponseFields() {
  static const std::array<nghttp2_nv, 3> fields = {
      Field(":status", "200"), Field("content-type", "application/grpc"),
      Field("grpc-accept-encoding", "identity, deflate, gzip")};
  return fields;
}

}  // namespace

Session::Session(Shard& shard, net::Transport& transport)
    : shard_(shard),
      transport_(transport),
      peer_use_(shard.FindPeer(peer().network)),
      memory_(shard, peer_use_),
      resets_(kResetBurst, kResetsPerSecond),
      controls_(kControlBurst, kControlsPerSecond) {
  nghttp2_session_server_new2(&nghttp2_, Callbacks::All(), this, Callbacks::Options());
  SubmitSettings();
}

Session::~Session() {
  CloseStreams();
  shard_.ForgetPeer(peer().network);
  nghttp2_session_del(nghttp2_);
}

void Session::SubmitSettings() {
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RequestHead::kMaxBytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  nghttp2_submit_settings(nghttp2_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(nghttp2_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

SteadyTime Session::now() const { return shard_.loop().now(); }

// All streams share the connection's window, so it is returned at once: a paused stream must not
// block the others.
bool Session::Receive(std::string_view bytes) {
  paused_ = false;
  heads_received_ = 0;
  inflated_before_ = shard_.inflater().total();
  ssize_t got = NGHTTP2_ERR_FLOODED;
  if (flood_ == nullptr) got = nghttp2_session_mem_recv(nghttp2_, Bytes(bytes), bytes.size());
  if (received_ > 0) nghttp2_session_consume_connection(nghttp2_, std::exchange(received_, 0));
  if (nghttp2_session_want_write(nghttp2_) != 0) transport_.RequestFlush();
  if (got >= 0) {
    if (paused_) rest_ = bytes.substr(static_cast<std::size_t>(got));
    return true;
  }
  if (flood_ != nullptr) shard_.Count(flood_reason_);
  const bool flooded = flood_ != nullptr || got == NGHTTP2_ERR_FLOODED;
  Abort(flooded ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR,
        flood_ != nullptr ? flood_ : "");
  return false;
}

bool Session::OnData(std::int32_t id, std::string_view bytes, bool last_frame) {
  received_ += bytes.size();
  if (Stream* const stream = Find(id)) stream->OnData(bytes, last_frame);
  paused_ = shard_.inflater().total() - inflated_before_ > Shard::kInflatedBytesPerIteration;
  return !paused_;
}

void Session::TakeOutput(std::string& out) {
  do {
    RunCallbacks();
    while (out.size() < net::Transport::kFlushBytes) {
      const std::uint8_t* frame = nullptr;
      const ssize_t size = nghttp2_session_mem_send(nghttp2_, &frame);
      if (size <= 0) break;
      out.append(reinterpret_cast<const char*>(frame), static_cast<std::size_t>(size));
    }
  } while (!with_callbacks_.empty() && out.size() < net::Transport::kFlushBytes);
  memory_.CountOutput();
  if (out.size() < net::Transport::kFlushBytes) BoundOutput();
}

// What is left waits for the peer's windows. The responses that have waited longest are given up.
void Session::BoundOutput() {
  while (memory_.output() > 0 && !memory_.IsWithinLimits()) {
    shard_.Count(Refusal::kUntaken);
    Reset(untaken_.front(), NGHTTP2_CANCEL);
  }
}

bool Session::ended() const {
  return nghttp2_session_want_read(nghttp2_) == 0 && nghttp2_session_want_write(nghttp2_) == 0;
}

void Session::RunCallbacks() {
  while (!with_callbacks_.empty()) {
    Stream& stream = *with_callbacks_.back();
    with_callbacks_.pop_back();
    stream.waits_for_callbacks = false;
    stream.RunCallbacks();
  }
}

void Session::RequestCallbacks(Stream& stream) {
  if (std::exchange(stream.waits_for_callbacks, true)) return;
  with_callbacks_.push_back(&stream);
  transport_.RequestFlush();
}

Stream* Session::Find(std::int32_t id) {
  if (id == found_id_) return found_;
  found_id_ = id;
  found_ = static_cast<Stream*>(nghttp2_session_get_stream_user_data(nghttp2_, id));
  return found_;
}

void Session::OpenStream(std::int32_t id) {
  found_id_ = id;
  Stream& stream = shard_.TakeStream();
  stream.place = streams_.size();
  streams_.push_back(&stream);
  stream.Open(*this, id);
  NoteIncomplete(stream);
  nghttp2_session_set_stream_user_data(nghttp2_, id, &stream);
  found_ = &stream;
}

bool Session::Admit(Stream& stream, const CallPool* method) {
  const bool is_probe = method != nullptr && method->method().is_probe;
  if (is_probe ? probes_ >= kMaxProbes : !HasPlace(stream)) {
    shard_.Count(Refusal::kCalls);
    Reset(stream, NGHTTP2_REFUSED_STREAM);
    return false;
  }
  stream.counted = is_probe ? Stream::Counted::kAsProbe : Stream::Counted::kAsCall;
  is_probe ? ++probes_ : ++peer_use_.calls;
  ++calls_;
  return true;
}

// While half of the calls is left, no peer can have more than its share.
bool Session::HasPlace(const Stream& stream) {
  if (only_probes_) return false;
  const ServerOptions& options = shard_.options();
  const std::int64_t left = shard_.quota().left();
  if (left < static_cast<std::int64_t>(options.max_calls / 2)) {
    if (!PeerUse::IsWithinShare(peer_use_.calls + 1, left)) return false;
    if (options.knows_caller && !options.knows_caller(stream)) return false;
  }
  return shard_.quota().Take();
}

void Session::CloseStream(std::int32_t id) {
  if (Stream* const stream = Find(id)) Discard(*stream);
}

void Session::Discard(Stream& stream) {
  if (found_ == &stream) found_ = nullptr;
  stream.Close();
  if (std::exchange(stream.waits_for_callbacks, false)) std::erase(with_callbacks_, &stream);
  streams_.back()->place = stream.place;
  streams_[stream.place] = streams_.back();
  streams_.pop_back();
  if (stream.counted == Stream::Counted::kAsProbe) --probes_;
  if (stream.counted == Stream::Counted::kAsCall) {
    --peer_use_.calls;
    shard_.quota().Return();
  }
  stream.counted = Stream::Counted::kNot;
  shard_.ReturnStream(stream);
}

void Session::CloseStreams() {
  while (!streams_.empty()) {
    Stream& stream = *streams_.back();
    nghttp2_session_set_stream_user_data(nghttp2_, stream.id(), nullptr);
    Discard(stream);
  }
}

// nghttp2 sends the reset before any DATA.
void Session::Reset(Stream& stream, std::uint32_t error) {
  nghttp2_submit_rst_stream(nghttp2_, NGHTTP2_FLAG_NONE, stream.id(), error);
  nghttp2_session_set_stream_user_data(nghttp2_, stream.id(), nullptr);
  Discard(stream);
  transport_.RequestFlush();
}

void Session::Abort(std::uint32_t error, std::string_view text) {
  nghttp2_submit_goaway(nghttp2_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(nghttp2_), error, Bytes(text),
                        text.size());
  CloseStreams();
  transport_.RequestFlush();
}

void Session::BeginDrain() {
  draining_ = true;
  nghttp2_submit_shutdown_notice(nghttp2_);
  SendPing();
  for (Stream* const stream : streams_) stream->OnDrain();
}

void Session::EndDrain() {
  nghttp2_submit_goaway(nghttp2_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(nghttp2_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  transport_.RequestFlush();
}

void Session::SendPing() {
  ++pings_;
  nghttp2_submit_ping(nghttp2_, NGHTTP2_FLAG_NONE, nullptr);
  transport_.RequestFlush();
}

// No other frame may be sent or received within a header block, so only closing is left.
bool Session::EndIncomplete(SteadyTime time) {
  while (incomplete_.oldest() <= time) {
    Stream& stream = incomplete_.front();
    shard_.Count(Refusal::kIncomplete);
    if (stream.in_headers()) {
      Abort(NGHTTP2_ENHANCE_YOUR_CALM, "header block not complete");
      return false;
    }
    stream.OnIncomplete();
  }
  return true;
}

void Session::EndUntaken(SteadyTime time) {
  while (untaken_.oldest() <= time) {
    shard_.Count(Refusal::kStalled);
    Reset(untaken_.front(), NGHTTP2_CANCEL);
  }
}

bool Session::OnFrame(std::uint8_t type, std::uint8_t flags, std::int32_t id) {
  switch (type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
      if (Stream* const stream = Find(id)) {
        if (stream->in_headers()) {
          CallPool* const method = shard_.FindMethod(stream->head().path());
          if (!Admit(*stream, method)) return true;
          stream->OnHeadersEnd(method);
        }
        if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->OnRequestEnd();
      }
      return true;
    case NGHTTP2_SETTINGS:
      if ((flags & NGHTTP2_FLAG_ACK) != 0) return true;
      settled_ = true;
      return CountControl("too_many_settings");
    case NGHTTP2_PING:
      if ((flags & NGHTTP2_FLAG_ACK) == 0) return CountControl("too_many_pings");
      if (pings_ > 0) --pings_;
      return true;
    case NGHTTP2_RST_STREAM:
      return OnReset(id);
    default:
      return true;
  }
}

bool Session::PauseInHeaders() {
  paused_ = true;
  head_bytes_ += heads_received_;
  if (head_bytes_ <= kMaxHeaderBlock) return true;
  flood_ = "headers_too_large";
  return false;
}

bool Session::CountControl(const char* flood) {
  if (controls_.Allow(now())) return true;
  flood_ = flood;
  return false;
}

void Session::TrackResponse(std::int32_t id, std::function<void()> on_lost) {
  while (!sent_answers_.empty() && (now() - sent_answers_.front().sent > kCrossing ||
                                    sent_answers_.size() >= kMaxSentAnswers)) {
    sent_answers_.pop_front();
  }
  sent_answers_.push_back({.stream = id, .sent = now(), .on_lost = std::move(on_lost)});
}

void Session::OnResponseLost(std::int32_t id) {
  const auto lost = std::find_if(sent_answers_.begin(), sent_answers_.end(),
                                 [&](const auto& it) { return it.stream == id; });
  if (lost == sent_answers_.end()) return;
  const auto on_lost = std::move(lost->on_lost);
  sent_answers_.erase(lost);
  on_lost();
}

bool Session::OnReset(std::int32_t id) {
  if (!sent_answers_.empty()) OnResponseLost(id);
  const Stream* const stream = Find(id);
  return stream == nullptr || now() - stream->received() >= kYoung || CountReset();
}

bool Session::CountReset() {
  if (resets_.Allow(now())) return true;
  flood_ = "too_many_resets";
  flood_reason_ = Refusal::kRapidReset;
  return false;
}

void Session::OnFrameSent(std::uint8_t type, std::uint8_t flags, std::int32_t id) {
  if (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA) return;
  controls_.Reset();
  if (!early_ends_ || (flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
  const Stream* const stream = Find(id);
  if (stream == nullptr || stream->request_ended()) return;
  // The response is complete, so the rest of the request is not needed.
  nghttp2_submit_rst_stream(nghttp2_, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
}

// A peer that breaks the protocol in a call makes the server reset it. That ends the call as a
// reset by the peer does, so it counts the same. The other codes are of resets that the server
// chose.
void Session::OnResetSent(std::uint32_t error) {
  const bool chosen =
      error == NGHTTP2_NO_ERROR || error == NGHTTP2_CANCEL || error == NGHTTP2_REFUSED_STREAM;
  if (!chosen) CountReset();
}

void Session::SubmitResponse(Stream& stream) {
  const nghttp2_data_provider provider{.source = {.ptr = nullptr},
                                       .read_callback = Callbacks::TakeOutput};
  const auto& fields = ResponseFields();
  nghttp2_submit_response(nghttp2_, stream.id(), fields.data(), fields.size(), &provider);
  transport_.RequestFlush();
}

void Session::SubmitTrailers(Stream& stream, const Status& status) {
  early_ends_ |= !stream.request_ended();
  transport_.RequestFlush();
  static const nghttp2_nv kOk = Field("grpc-status", "0");
  if (status.ok()) {
    nghttp2_submit_trailer(nghttp2_, stream.id(), &kOk, 1);
    return;
  }
  const std::string message = PercentEncode(status.message);
  const std::array<nghttp2_nv, 2> fields = {Field("grpc-status", StatusNumber(status.code)),
                                            CopiedField("grpc-message", message)};
  nghttp2_submit_trailer(nghttp2_, stream.id(), fields.data(), message.empty() ? 1 : 2);
}

void Session::SubmitTrailersOnly(Stream& stream, const Status& status) {
  early_ends_ |= !stream.request_ended();
  const std::string message = PercentEncode(status.message);
  const auto& start = ResponseFields();
  const std::array<nghttp2_nv, 5> fields = {start[0], start[1], start[2],
                                            Field("grpc-status", StatusNumber(status.code)),
                                            CopiedField("grpc-message", message)};
  nghttp2_submit_response(nghttp2_, stream.id(), fields.data(), message.empty() ? 4 : 5, nullptr);
  transport_.RequestFlush();
}

void Session::SubmitHttpError(Stream& stream, std::string_view http_status) {
  early_ends_ |= !stream.request_ended();
  const nghttp2_nv field = Field(":status", http_status);
  nghttp2_submit_response(nghttp2_, stream.id(), &field, 1, nullptr);
  transport_.RequestFlush();
}

void Session::ResumeOutput(std::int32_t id) {
  nghttp2_session_resume_data(nghttp2_, id);
  transport_.RequestFlush();
}

void Session::ReturnWindow(std::int32_t id, std::size_t bytes) {
  if (bytes == 0) return;
  nghttp2_session_consume_stream(nghttp2_, id, bytes);
  transport_.RequestFlush();
}

}  // namespace sluice::rpc::http2
