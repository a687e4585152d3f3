#include "http/http_connection.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// The maximum unsent output. Beyond it, no further requests are read: a client must read responses
// to send more.
constexpr std::size_t kMaxOutput = net::Transport::kFlushBytes;

// While a request is being processed and more input than this is buffered, reading pauses.
constexpr std::size_t kMaxInput = net::Transport::kReadBytes;

// The maximum size of a request that is handled at once. JSON takes up to a millisecond per 4 KB,
// so larger requests are long tasks.
constexpr std::size_t kSmallRequest = 1024;

// How long the client may take to close after the last response. If the server closed at once,
// input still in flight would make the kernel reset the connection and discard the response.
constexpr std::chrono::seconds kEndTime(2);

}  // namespace

HttpConnection::HttpConnection(HttpLoopState& shared, net::TransportPtr transport, bool has_place)
    : net::ServedConnection(shared.loop(), std::move(transport), has_place,
                            shared.options().max_connection_age, shared.options().no_place_time),
      shared_(shared),
      timer_(shared.loop().timers(), [this] { OnTime(); }),
      since_(shared.loop().now()) {}

void HttpConnection::Start() {
  transport_->Start(*this);
  NoteAllSent();
}

void HttpConnection::OnClose() {
  if (state_ == State::kAnswering) shared_.EndAnswering();
  state_ = State::kEnding;
  shared_.CountBuffered(buffered_, 0);
  timer_.Cancel();
  later_.reset();
  if (exchange_) exchange_->Detach();
  if (delayed_ && delayed_->on_lost) delayed_->on_lost();
  for (const LosableAnswer& it : std::exchange(losable_, {})) it.on_lost();
}

void HttpConnection::Receive(std::string_view bytes) {
  if (state_ == State::kEnding) return Discard(bytes.size());
  input_ += bytes;
  if (state_ != State::kAnswering) {
    ReadRequests();
  } else if (input_.size() > kMaxInput) {
    transport_->SetReading(false);
  }
  CountBuffered();
}

// Processes buffered requests until the unsent output reaches its limit.
void HttpConnection::ReadRequests() {
  while (!input_.empty() && unsent() < kMaxOutput && ReadRequest()) continue;
  if (state_ == State::kAnswering || state_ == State::kEnding) return;
  const bool reads = input_.empty() || unsent() < kMaxOutput;
  transport_->SetReading(reads);
  if (input_ended_ && reads) BeginEnding();
}

// Returns whether the next request can be read at once.
bool HttpConnection::ReadRequest() {
  if (state_ == State::kIdle) {
    state_ = State::kReading;
    parsed_ = 0;
    reader_ = std::make_unique<RequestReader>();
    StartTimer(shared_.options().request_time);
  }
  std::size_t used = 0;
  const auto progress = reader_->Read(input_, used);
  input_.erase(0, used);
  parsed_ += used;
  if (progress == RequestReader::Progress::kRefused) {
    Refuse(reader_->status());
  } else if (progress == RequestReader::Progress::kDone) {
    Dispatch();
  } else if (reader_->TakeExpectation()) {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
    transport_->RequestFlush();
  }
  return state_ == State::kIdle;
}

void HttpConnection::Dispatch() {
  state_ = State::kAnswering;
  shared_.BeginAnswering();
  timer_.Cancel();
  if (!has_place()) timer_.Start(ends_at_);
  if (parsed_ <= kSmallRequest) return Handle();
  later_ = std::make_shared<bool>(true);
  shared_.loop().PostLong(net::LongWork::kJson, [this, posted = std::weak_ptr(later_)] {
    if (posted.expired()) return;
    later_.reset();
    Handle();
    if (state_ == State::kIdle) ReadRequests();
  });
}

void HttpConnection::Handle() {
  HttpRequest request = reader_->Take();
  request.peer = transport_->peer();
  request.has_place = has_place();
  request.may_wait = shared_.MayWait();
  form_ = {
      .with_body = request.method != "HEAD",
      .keep_alive = has_place() && reader_->keep_alive() && shared_.loop().now() < too_old_at_};
  reader_.reset();
  parsed_ = 0;
  exchange_ = std::make_shared<HttpExchange>(
      shared_.loop(), [this](HttpResponse response) { Deliver(std::move(response)); });
  dispatching_ = true;
  shared_.router().Handle(request, HttpResponder(exchange_));
  dispatching_ = false;
}

void HttpConnection::Deliver(HttpResponse response) {
  exchange_.reset();
  used_ = true;
  if (response.delay > Duration::zero()) {
    StartTimer(std::exchange(response.delay, Duration::zero()));
    delayed_ = std::move(response);
    return;
  }
  state_ = State::kIdle;
  shared_.EndAnswering();
  form_.keep_alive = form_.keep_alive && !draining_;
  Write(response, form_);
  if (!dispatching_ && state_ == State::kIdle) ReadRequests();
}

void HttpConnection::Refuse(int status) {
  shared_.metrics().OnRefusedRequest();
  Write({.status = status, .body = {}}, {.keep_alive = false});
}

void HttpConnection::Write(const HttpResponse& response, const ResponseForm& form) {
  AppendResponse(response, form, output_);
  if (response.on_lost) losable_.push_back({all_taken_ + unsent(), response.on_lost});
  if (!form.keep_alive) return BeginEnding();
  StartTimer(shared_.options().answer_time);
  transport_->RequestFlush();
}

void HttpConnection::BeginEnding() {
  state_ = State::kEnding;
  reader_.reset();
  parsed_ = 0;
  std::string().swap(input_);
  StartTimer(shared_.options().answer_time);
  transport_->SetReading(true);
  transport_->FinishSending();
}

// When this is called, the kernel has accepted all output that earlier calls took.
void HttpConnection::TakeOutput(std::string& out) {
  while (!losable_.empty() && losable_.front().end <= all_taken_) losable_.pop_front();
  if (unsent() == 0) return NoteAllSent();
  const std::size_t size = std::min(unsent(), net::Transport::kFlushBytes);
  out.append(output_, taken_, size);
  taken_ += size;
  all_taken_ += size;
  CountBuffered(size);
  if (unsent() > 0) return;
  std::string().swap(output_);
  taken_ = 0;
  // Buffered requests have waited for this output to be sent. Handlers must not be called during
  // the flush.
  if (!input_.empty() && state_ == State::kIdle) ContinueLater();
}

// Continues with the buffered requests in a later iteration.
void HttpConnection::ContinueLater() {
  if (later_) return;
  later_ = std::make_shared<bool>(true);
  shared_.loop().Post([this, posted = std::weak_ptr(later_)] {
    if (posted.expired()) return;
    later_.reset();
    if (state_ == State::kIdle || state_ == State::kReading) ReadRequests();
  });
}

// Starts the next timeout once the kernel has accepted all output.
void HttpConnection::NoteAllSent() {
  CountBuffered();
  if (unsent() > 0 || transport_->unsent() > 0) return;
  if (state_ == State::kEnding) {
    timer_.Start(std::min(timer_.at(), shared_.loop().now() + kEndTime));
  } else if (state_ == State::kIdle && input_.empty()) {
    StartIdleTimer();
  }
}

// Reports the bytes held for the client, including `in_flight` bytes that the transport is
// about to send.
void HttpConnection::CountBuffered(std::size_t in_flight) {
  const std::size_t now = input_.size() + parsed_ + unsent() + transport_->unsent() + in_flight;
  shared_.CountBuffered(std::exchange(buffered_, now), now);
}

net::Occupant HttpConnection::AsOccupant() const {
  using Standing = net::Occupant::State;
  const bool awaits_client =
      state_ == State::kReading || (state_ == State::kEnding && !input_ended_);
  Standing standing = Standing::kBusy;  // also if output waits for the flush
  if (transport_->unsent() > 0 || (unsent() == 0 && awaits_client)) {
    standing = Standing::kStuck;
  } else if (unsent() == 0 && state_ != State::kAnswering) {
    standing = used_ ? Standing::kIdle : Standing::kUnused;
  }
  return {.state = standing, .since = since_};
}

void HttpConnection::Drain() {
  draining_ = true;
  if (state_ == State::kIdle && unsent() == 0) StartIdleTimer();
}

void HttpConnection::StartIdleTimer() {
  StartTimer(draining_ ? shared_.options().last_idle_time : shared_.options().idle_time);
}

void HttpConnection::OnClosed(Closure closure, std::string_view) {
  if (closure == Closure::kLost) return Close();
  input_ended_ = true;
  if (state_ == State::kIdle || state_ == State::kReading) ReadRequests();
}

void HttpConnection::OnTime() {
  if (shared_.loop().now() >= ends_at_) return Close();
  if (state_ == State::kReading) return Refuse(408);
  if (delayed_) return Deliver(*std::exchange(delayed_, std::nullopt));
  Close();
}

void HttpConnection::StartTimer(Duration time) {
  since_ = shared_.loop().now();
  timer_.Start(std::min<SteadyTime>(since_ + time, ends_at_));
}

}  // namespace sluice
