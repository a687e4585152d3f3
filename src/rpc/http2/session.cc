#include "rpc/http2/session.h"

namespace sluice::rpc::http2 {

Session::Session(Shard& shard, net::Transport& transport)
    : shard_(shard),
      peer_use_(shard.state().FindPeer(transport.peer().network)),
      nghttp2_(MakeNghttp2()),
      context_{.loop = shard.state(),
               .transport = transport,
               .frames = FrameWriter(transport, nghttp2_, TakeOutputOf),
               .memory = MessageMemory(shard.state(), peer_use_)},
      admission_(shard.state(), peer_use_) {
  context_.frames.SubmitSettings();
}

Session::~Session() {
  CloseStreams();
  shard_.state().ForgetPeer(network());
  nghttp2_session_del(nghttp2_);
}

// All streams share the connection's window, so this window is returned at once: a paused stream
// must not block the others.
bool Session::Receive(std::string_view bytes) {
  paused_ = false;
  heads_received_ = 0;
  inflated_before_ = shard_.state().inflater().total();
  ssize_t got = NGHTTP2_ERR_FLOODED;
  if (!flood_.flooded()) {
    got = nghttp2_session_mem_recv(nghttp2_, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                   bytes.size());
  }
  if (received_ > 0) nghttp2_session_consume_connection(nghttp2_, std::exchange(received_, 0));
  if (nghttp2_session_want_write(nghttp2_) != 0) context_.transport.RequestFlush();
  if (got >= 0) {
    if (paused_) rest_ = bytes.substr(static_cast<std::size_t>(got));
    return true;
  }
  if (flood_.flooded()) shard_.state().Count(flood_.reason());
  const bool flooded = flood_.flooded() || got == NGHTTP2_ERR_FLOODED;
  Abort(flooded ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR, flood_.kind());
  return false;
}

int Session::OnData(std::int32_t id, std::string_view bytes, bool last_frame) {
  received_ += bytes.size();
  if (Stream* const stream = Find(id)) stream->OnData(bytes, last_frame);
  const std::size_t inflated = shard_.state().inflater().total() - inflated_before_;
  paused_ = inflated > LoopState::kInflatedBytesPerIteration;
  return paused_ ? NGHTTP2_ERR_PAUSE : 0;
}

void Session::TakeOutput(std::string& out) {
  context_.sent_answers.OnSent(now());
  do {
    RunCallbacks();
    while (out.size() < net::Transport::kFlushBytes) {
      const std::uint8_t* frame = nullptr;
      const ssize_t size = nghttp2_session_mem_send(nghttp2_, &frame);
      if (size <= 0) break;
      out.append(reinterpret_cast<const char*>(frame), static_cast<std::size_t>(size));
    }
  } while (!context_.with_callbacks.empty() && out.size() < net::Transport::kFlushBytes);
  context_.memory.CountOutput();
  if (out.size() < net::Transport::kFlushBytes) BoundOutput();
}

// The remaining output waits for the peer's windows. If there is too much output, resets the calls
// whose output has waited longest.
void Session::BoundOutput() {
  while (context_.memory.output() > 0 && !context_.memory.IsWithinLimits()) {
    shard_.state().Count(Refusal::kUnsent);
    Reset(context_.unsent_responses.front(), NGHTTP2_CANCEL);
  }
}

bool Session::ended() const {
  return nghttp2_session_want_read(nghttp2_) == 0 && nghttp2_session_want_write(nghttp2_) == 0;
}

void Session::RunCallbacks() {
  while (!context_.with_callbacks.empty()) {
    Stream& stream = *context_.with_callbacks.back();
    context_.with_callbacks.pop_back();
    stream.RunCallbacks();
  }
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
  stream.Open(context_, id);
  nghttp2_session_set_stream_user_data(nghttp2_, id, &stream);
  found_ = &stream;
}

void Session::OnBeginHeaders(std::int32_t id, bool is_request) {
  head_bytes_ = 0;
  if (is_request) OpenStream(id);
}

// Ignores trailers of a request.
int Session::OnHeader(std::int32_t id, bool is_request, std::string_view name,
                      std::string_view value) {
  if (Stream* const stream = is_request ? Find(id) : nullptr) stream->OnHeader(name, value);
  heads_received_ += name.size() + value.size();
  head_bytes_ += name.size() + value.size();
  if (heads_received_ <= kHeaderBytesPerIteration) return 0;
  paused_ = true;
  if (head_bytes_ <= kMaxHeaderBlock) return NGHTTP2_ERR_PAUSE;
  flood_.Accuse("headers_too_large");
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

void Session::OnHeadersEnd(Stream& stream) {
  CallPool* const method = shard_.FindMethod(stream.head().path());
  const bool is_probe = method != nullptr && method->method().is_probe;
  if (!admission_.Admit(stream, is_probe)) return Reset(stream, NGHTTP2_REFUSED_STREAM);
  stream.counted = is_probe ? Stream::Counted::kAsProbe : Stream::Counted::kAsCall;
  stream.OnHeadersEnd(method);
}

void Session::Discard(Stream& stream) {
  if (found_ == &stream) found_ = nullptr;
  stream.Close();
  streams_.back()->place = stream.place;
  streams_[stream.place] = streams_.back();
  streams_.pop_back();
  const auto counted = std::exchange(stream.counted, Stream::Counted::kNot);
  if (counted != Stream::Counted::kNot) admission_.Release(counted == Stream::Counted::kAsProbe);
  shard_.ReturnStream(stream);
}

void Session::CloseStreams() {
  while (!streams_.empty()) {
    Stream& stream = *streams_.back();
    nghttp2_session_set_stream_user_data(nghttp2_, stream.id(), nullptr);
    Discard(stream);
  }
}

void Session::OnEnd() {
  CloseStreams();
  context_.sent_answers.OnEnd();
}

void Session::Reset(Stream& stream, std::uint32_t error) {
  context_.frames.SubmitReset(stream.id(), error);
  nghttp2_session_set_stream_user_data(nghttp2_, stream.id(), nullptr);
  Discard(stream);
}

void Session::Abort(std::uint32_t error, std::string_view text) {
  context_.frames.SubmitGoaway(error, text);
  CloseStreams();
}

void Session::BeginDrain() {
  context_.draining = true;
  context_.frames.SubmitShutdownNotice();
  SendPing();
  for (Stream* const stream : streams_) stream->OnDrain();
}

void Session::EndDrain() { context_.frames.SubmitGoaway(NGHTTP2_NO_ERROR, {}); }

void Session::SendPing() {
  ++pings_;
  context_.frames.SubmitPing();
}

// Within a header block, no other frames are allowed. So if the block is not complete in time, the
// whole connection is closed, not only the request.
bool Session::EndIncomplete(SteadyTime time) {
  while (incomplete_since() <= time) {
    Stream& stream = context_.incomplete_requests.front();
    shard_.state().Count(Refusal::kIncomplete);
    if (stream.in_headers()) {
      Abort(NGHTTP2_ENHANCE_YOUR_CALM, "header block not complete");
      return false;
    }
    stream.OnIncomplete();
  }
  return true;
}

void Session::EndUnsent(SteadyTime time) {
  while (unsent_since() <= time) {
    shard_.state().Count(Refusal::kStalled);
    Reset(context_.unsent_responses.front(), NGHTTP2_CANCEL);
  }
}

int Session::OnFrame(const nghttp2_frame& frame) {
  const nghttp2_frame_hd& head = frame.hd;
  if (head.type != NGHTTP2_HEADERS && head.type != NGHTTP2_DATA) {
    return OnControl(head) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (Stream* const stream = Find(head.stream_id)) {
    if (stream->in_headers()) OnHeadersEnd(*stream);
    const bool refused = Find(head.stream_id) == nullptr;
    if (!refused && (head.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->OnRequestEnd();
  }
  return 0;
}

bool Session::OnControl(const nghttp2_frame_hd& head) {
  const bool is_ack = (head.flags & NGHTTP2_FLAG_ACK) != 0;
  switch (head.type) {
    case NGHTTP2_SETTINGS:
      if (is_ack) return true;
      settled_ = true;
      return flood_.CountSettings(now());
    case NGHTTP2_PING:
      if (!is_ack) return flood_.CountPing(now());
      if (pings_ > 0) --pings_;
      return true;
    case NGHTTP2_RST_STREAM:
      return OnReset(head.stream_id);
    default:
      return true;
  }
}

bool Session::OnReset(std::int32_t id) {
  context_.sent_answers.OnReset(id);
  const Stream* const stream = Find(id);
  return stream == nullptr || now() - stream->received() >= FloodGuard::kYoung ||
         flood_.CountReset(now());
}

}  // namespace sluice::rpc::http2
