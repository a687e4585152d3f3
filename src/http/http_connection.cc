#include "http/http_connection.h"

#include <algorithm>
#include <utility>

#include "http/http_connections.h"
#include "net/connection_age.h"

namespace sluice {
namespace {

// The maximum unsent output. Beyond it, no further requests are read: a client must read responses
// to send more.
constexpr std::size_t kMaxOutput = net::Transport::kFlushBytes;

// The maximum bytes buffered while a request is being processed.
constexpr std::size_t kMaxInput = net::Transport::kReadBytes;

// How long the client may take to close after the last response. If the server closed at once,
// input still in flight would make the kernel reset the connection and discard the response.
constexpr std::chrono::seconds kEndTime(2);

}  // namespace

HttpConnection::HttpConnection(HttpConnections& owner, net::IoThreads::Place place,
                               net::TransportPtr transport, bool has_place)
    : owner_(owner),
      place_(std::move(place)),
      transport_(std::move(transport)),
      too_old_at_(net::EndOfAge(owner.loop(), owner.options().max_connection_age)),
      has_place_(has_place),
      ends_at_(has_place ? SteadyTime::max() : owner.loop().now() + owner.options().no_place_time),
      timer_(owner.loop().timers(), [this] { OnTime(); }),
      since_(owner.loop().now()) {}

void HttpConnection::Start() {
  transport_->Start(*this);
  NoteAllSent();
}

void HttpConnection::Close() {
  if (state_ == State::kAnswering) owner_.NoteAnswered();
  state_ = State::kEnding;
  owner_.NoteBuffered(buffered_, 0);
  timer_.Cancel();
  read_later_.reset();
  if (exchange_) exchange_->Detach();
  transport_->Close();
}

void HttpConnection::Receive(std::string_view bytes) {
  if (state_ == State::kEnding) return Discard(bytes.size());
  input_ += bytes;
  if (state_ != State::kAnswering) {
    ReadRequests();
  } else if (input_.size() > kMaxInput) {
    transport_->SetReading(false);
  }
  NoteBuffered();
}

void HttpConnection::Discard(std::size_t bytes) {
  discarded_ += bytes;
  if (discarded_ > net::Transport::kMaxDiscarded) transport_->SetReading(false);
}

// Processes buffered requests until the unsent output reaches its limit.
void HttpConnection::ReadRequests() {
  while (!input_.empty() && unsent() < kMaxOutput && ReadRequest()) {
  }
  if (state_ == State::kAnswering || state_ == State::kEnding) return;
  const bool held_back = !input_.empty() && unsent() >= kMaxOutput;
  transport_->SetReading(!held_back);
  if (input_ended_ && !held_back) BeginEnding();
}

// Returns whether the next request can be read at once.
bool HttpConnection::ReadRequest() {
  if (state_ == State::kIdle) {
    state_ = State::kReading;
    parsed_ = 0;
    reader_ = std::make_unique<RequestReader>();
    StartTimer(owner_.options().request_time);
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
  owner_.NoteRequest();
  HttpRequest request = reader_->Take();
  request.peer = transport_->peer();
  request.has_place = has_place_;
  request.may_wait = owner_.MayWait();
  form_ = {.with_body = request.method != "HEAD",
           .keep_alive = has_place_ && reader_->keep_alive() && owner_.loop().now() < too_old_at_};
  reader_.reset();
  parsed_ = 0;
  state_ = State::kAnswering;
  owner_.NoteAnswering();
  timer_.Cancel();
  if (!has_place_) timer_.Start(ends_at_);
  exchange_ = std::make_shared<HttpExchange>(
      owner_.loop(), [this](HttpResponse response) { Deliver(std::move(response)); });
  dispatching_ = true;
  owner_.router().Handle(request, HttpResponder(exchange_));
  dispatching_ = false;
}

void HttpConnection::Deliver(HttpResponse response) {
  exchange_.reset();
  if (response.delay > Duration::zero()) {
    StartTimer(std::exchange(response.delay, Duration::zero()));
    delayed_ = std::move(response);
    return;
  }
  state_ = State::kIdle;
  owner_.NoteAnswered();
  form_.keep_alive = form_.keep_alive && !owner_.draining();
  Write(response, form_);
  if (!dispatching_ && state_ == State::kIdle) ReadRequests();
}

void HttpConnection::Refuse(int status) {
  owner_.NoteRefusedRequest();
  Write({.status = status, .body = {}}, {.keep_alive = false});
}

void HttpConnection::Write(const HttpResponse& response, const ResponseForm& form) {
  AppendResponse(response, form, output_);
  if (!form.keep_alive) return BeginEnding();
  StartTimer(owner_.options().answer_time);
  transport_->RequestFlush();
}

void HttpConnection::BeginEnding() {
  state_ = State::kEnding;
  reader_.reset();
  parsed_ = 0;
  std::string().swap(input_);
  StartTimer(owner_.options().answer_time);
  transport_->SetReading(true);
  transport_->FinishSending();
}

void HttpConnection::TakeOutput(std::string& out) {
  if (unsent() == 0) return NoteAllSent();
  const std::size_t size = std::min(unsent(), net::Transport::kFlushBytes);
  out.append(output_, taken_, size);
  taken_ += size;
  NoteBuffered(size);
  if (unsent() > 0) return;
  std::string().swap(output_);
  taken_ = 0;
  if (!input_.empty() && state_ == State::kIdle) ReadLater();  // requests waited for this output
}

// Posts ReadRequests: handlers must not be called during the flush, so not within TakeOutput.
void HttpConnection::ReadLater() {
  if (read_later_) return;
  read_later_ = std::make_shared<bool>(true);
  owner_.loop().Post([this, posted = std::weak_ptr(read_later_)] {
    if (posted.expired()) return;
    read_later_.reset();
    if (state_ == State::kIdle || state_ == State::kReading) ReadRequests();
  });
}

// Starts the next timeout once the kernel has accepted all output.
void HttpConnection::NoteAllSent() {
  NoteBuffered();
  if (unsent() > 0 || transport_->unsent() > 0) return;
  if (state_ == State::kEnding) {
    timer_.Start(std::min(timer_.at(), owner_.loop().now() + kEndTime));
  } else if (state_ == State::kIdle && input_.empty()) {
    StartIdleTimer();
  }
}

// Reports the bytes held for the client, with those that the transport is about to send.
void HttpConnection::NoteBuffered(std::size_t in_flight) {
  const std::size_t now = input_.size() + parsed_ + unsent() + transport_->unsent() + in_flight;
  owner_.NoteBuffered(std::exchange(buffered_, now), now);
}

net::Occupant HttpConnection::AsOccupant() const {
  using Standing = net::Occupant::State;
  Standing standing = Standing::kBusy;
  if (transport_->unsent() > 0) {
    standing = Standing::kStuck;
  } else if (unsent() > 0) {
    standing = Standing::kBusy;  // about to be sent, at the end of this iteration
  } else if (state_ == State::kReading || state_ == State::kEnding) {
    standing = Standing::kStuck;
  } else if (state_ == State::kIdle) {
    standing = Standing::kIdle;
  }
  return {.state = standing, .since = since_, .network = transport_->peer().network};
}

void HttpConnection::Drain() {
  if (state_ == State::kIdle && unsent() == 0) StartIdleTimer();
}

void HttpConnection::StartIdleTimer() {
  const HttpOptions& options = owner_.options();
  StartTimer(owner_.draining() ? options.last_idle_time : options.idle_time);
}

void HttpConnection::OnClosed(Closure closure, std::string_view) {
  if (closure == Closure::kLost) return owner_.Remove(*this);
  input_ended_ = true;
  if (state_ == State::kIdle || state_ == State::kReading) ReadRequests();
}

void HttpConnection::OnTime() {
  if (owner_.loop().now() >= ends_at_) return owner_.Remove(*this);
  if (state_ == State::kReading) return Refuse(408);
  if (delayed_) return Deliver(*std::exchange(delayed_, std::nullopt));
  owner_.Remove(*this);
}

void HttpConnection::StartTimer(Duration time) {
  since_ = owner_.loop().now();
  timer_.Start(std::min<SteadyTime>(since_ + time, ends_at_));
}

}  // namespace sluice
