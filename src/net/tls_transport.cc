#include "net/tls_transport.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "net/tls_session.h"

namespace sluice::net {
namespace {

using Progress = TlsSession::Progress;

// For the alert that tells the peer why, once all is lost.
constexpr std::chrono::seconds kAlertTime(1);

// A handshake costs up to a millisecond of CPU, and after a restart all callers come at once:
// between these few, a loop looks after its other connections.
constexpr int kHandshakesPerTurn = 4;

// What a peer that asks and never reads may make us keep.
constexpr std::size_t kMaxPending = 64 * 1024;

// Whether a handshake may go on in this turn of the thread's loop.
bool TakeHandshakeOfTurn(const Loop& loop) {
  thread_local const Loop* of = nullptr;
  thread_local SteadyTime turn{};
  thread_local int taken = 0;
  if (of != &loop || turn != loop.now()) taken = 0;
  of = &loop;
  turn = loop.now();
  return ++taken <= kHandshakesPerTurn;
}

class TlsTransport final : public Transport, private Protocol {
 public:
  template <typename... Session>
  TlsTransport(Loop& loop, TransportPtr inner, Session&&... session)
      : Transport(FlushStage::kCallers),  // never flushed: the inner transport is
        loop_(loop),
        inner_(std::move(inner)),
        session_(std::forward<Session>(session)...),
        timer_(loop.timers(), [this] { OnTime(); }),
        peer_{.address = inner_->peer().address, .tls = true, .identities = {}} {}
  ~TlsTransport() override { Close(); }

  void Start(Protocol& protocol) override;
  void RequestFlush() override { inner_->RequestFlush(); }
  void SetReading(bool reading) override;
  void FinishSending() override;
  void Close() override;
  std::size_t unsent() const override { return inner_->unsent() + pending_.size(); }
  const Peer& peer() const override { return peer_; }

 private:
  enum class State : std::uint8_t {
    kHandshake,
    kOpen,
    kFailed,  // an alert is on its way to the peer, then the protocol is told
    kClosed,
  };

  void Flush() override {}
  // As the protocol of the inner transport.
  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;
  void OnDrained() override;

  void Work(std::string_view input);
  bool Handshake(std::string_view& input);
  void ReadAll(std::string_view& input);
  void WorkLater();
  void OnHandshakeDone();
  void OnEndOfInput();
  void TakePlain(std::string& out);
  void OnTime();
  void Fail(std::string cause);
  void Lose(std::string_view cause);

  Loop& loop_;
  const TransportPtr inner_;
  TlsSession session_;
  Timer timer_;  // of the handshake, or of the alert
  Peer peer_;
  Protocol* protocol_ = nullptr;
  State state_ = State::kHandshake;
  bool reading_ = true;
  bool input_ended_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool work_posted_ = false;
  std::string held_;     // received, but not read yet
  std::string pending_;  // to be sent before anything else
  std::string cause_;    // of the failure
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

void TlsTransport::Start(Protocol& protocol) {
  protocol_ = &protocol;
  timer_.Start(loop_.now() + session_.handshake_time());
  inner_->Start(*this);
  if (session_.speaks_first()) Work({});
}

void TlsTransport::SetReading(bool reading) {
  reading_ = reading;
  if (state_ != State::kOpen) return;
  inner_->SetReading(reading);
  if (reading) WorkLater();
}

void TlsTransport::FinishSending() {
  finishing_ = true;
  if (state_ == State::kOpen) inner_->FinishSending();
}

void TlsTransport::Close() {
  state_ = State::kClosed;
  protocol_ = nullptr;
  timer_.Cancel();
  inner_->Close();
}

void TlsTransport::Receive(std::string_view bytes) {
  if (input_ended_) return;
  if (held_.empty()) return Work(bytes);
  const std::string all = std::exchange(held_, {}).append(bytes);
  Work(all);
}

// Reads of `input` what can be read now, and keeps the rest.
void TlsTransport::Work(std::string_view input) {
  if (state_ == State::kHandshake && !Handshake(input)) {
    held_.assign(input);
    return;
  }
  if (state_ == State::kOpen) ReadAll(input);
  if (state_ != State::kOpen) return;
  held_.assign(input);
  if (!pending_.empty()) inner_->RequestFlush();
  if (pending_.size() > kMaxPending) Fail("TLS: the peer does not read");
}

// Whether it is done.
bool TlsTransport::Handshake(std::string_view& input) {
  if (!TakeHandshakeOfTurn(loop_)) {
    inner_->SetReading(false);
    WorkLater();
    return false;
  }
  const Progress progress = session_.Handshake(input, pending_);
  if (!pending_.empty()) inner_->RequestFlush();
  if (progress == Progress::kDone) OnHandshakeDone();
  if (progress == Progress::kFailed) Fail("TLS handshake: " + session_.error());
  return progress == Progress::kDone;
}

void TlsTransport::OnHandshakeDone() {
  timer_.Cancel();
  state_ = State::kOpen;
  peer_.identities = session_.PeerIdentities();
  inner_->SetReading(reading_);
  inner_->RequestFlush();  // the protocol may have been asked for output that it could not give
  if (finishing_) inner_->FinishSending();
}

void TlsTransport::ReadAll(std::string_view& input) {
  while (state_ == State::kOpen && reading_ && !input_ended_) {
    std::string_view plain;
    switch (session_.Read(input, pending_, plain)) {
      case Progress::kDone:
        protocol_->Receive(plain);
        break;
      case Progress::kNeedsInput:
        return;
      case Progress::kEnded:
        return OnEndOfInput();
      case Progress::kFailed:
        return Fail("TLS: " + session_.error());
    }
  }
}

void TlsTransport::OnEndOfInput() {
  input_ended_ = true;
  protocol_->OnClosed(Closure::kEndOfInput, "closed by the peer");
}

void TlsTransport::WorkLater() {
  if (std::exchange(work_posted_, true)) return;
  loop_.Post([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    work_posted_ = false;
    if (state_ == State::kFailed || state_ == State::kClosed) return;
    if (state_ == State::kHandshake) inner_->SetReading(true);
    const std::string input = std::exchange(held_, {});
    Work(input);
  });
}

void TlsTransport::TakeOutput(std::string& out) {
  if (!pending_.empty()) {
    out += pending_;
    std::string().swap(pending_);
  } else if (state_ == State::kFailed) {
    return Lose(cause_);
  }
  if (state_ == State::kOpen) TakePlain(out);
}

void TlsTransport::TakePlain(std::string& out) {
  thread_local std::string plain;
  plain.clear();
  if (finished_) return;
  protocol_->TakeOutput(plain);
  if (state_ != State::kOpen) return;
  if (!plain.empty()) {
    if (!session_.Write(plain, out)) Fail("TLS: " + session_.error());
    if (plain.capacity() > 4 * kFlushBytes) std::string().swap(plain);
  } else if (finishing_) {
    finished_ = true;
    session_.Finish(out);
  }
}

void TlsTransport::OnDrained() {
  if (state_ == State::kOpen) protocol_->OnDrained();
}

// An end without close_notify may be an attacker's cut: what came is not known to be all.
void TlsTransport::OnClosed(Closure closure, std::string_view cause) {
  if (state_ == State::kFailed) return Lose(cause_);
  if (state_ == State::kHandshake) return Lose(fmt::format("TLS handshake: {}", cause));
  if (closure == Closure::kLost) return Lose(cause);
  if (!input_ended_) Lose("closed by the peer without a word in TLS");
}

void TlsTransport::OnTime() {
  if (state_ == State::kFailed) return Lose(cause_);
  Fail("TLS handshake: not done in time");
}

void TlsTransport::Fail(std::string cause) {
  state_ = State::kFailed;
  cause_ = std::move(cause);
  timer_.Start(loop_.now() + kAlertTime);
  inner_->SetReading(false);
  inner_->RequestFlush();
}

void TlsTransport::Lose(std::string_view cause) {
  Protocol& protocol = *protocol_;
  const std::string kept(cause);
  Close();
  protocol.OnClosed(Closure::kLost, kept);
}

template <typename... Session>
TransportPtr Wrap(Loop& loop, TransportPtr inner, Session&&... session) {
  return TransportPtr(new TlsTransport(loop, std::move(inner), std::forward<Session>(session)...),
                      TransportDeleter{.loop = &loop});
}

}  // namespace

TransportPtr AcceptTls(Loop& loop, TransportPtr inner, const TlsServerContext& context) {
  return Wrap(loop, std::move(inner), context.setup());
}

TransportPtr ConnectTls(Loop& loop, TransportPtr inner, const TlsClientContext& context,
                        const std::string& server_name) {
  return Wrap(loop, std::move(inner), context.setup(), server_name);
}

}  // namespace sluice::net
