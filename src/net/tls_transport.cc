#include "net/tls_transport.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "net/tls_session.h"

namespace sluice::net {
namespace {

using Progress = TlsSession::Progress;

// How long to try to send the alert after a failure.
constexpr std::chrono::seconds kAlertTime(1);

// The maximum bytes queued for a peer that does not read.
constexpr std::size_t kMaxPending = 64 * 1024;

class TlsTransport final : public Transport, private Protocol {
 public:
  template <typename... Session>
  TlsTransport(Loop& loop, TransportPtr inner, Session&&... session)
      : Transport(FlushStage::kCallers),  // unused: only the inner transport is flushed
        loop_(loop),
        inner_(std::move(inner)),
        session_(std::forward<Session>(session)...),
        timer_(loop.timers(), [this] { OnTime(); }),
        peer_{.address = inner_->peer().address,
              .network = inner_->peer().network,
              .tls = true,
              .identities = {}} {}
  ~TlsTransport() override { Close(); }

  void Start(Protocol& protocol) override {
    protocol_ = &protocol;
    timer_.Start(loop_.now() + session_.handshake_time());
    inner_->Start(*this);
    if (session_.speaks_first()) Work({});
  }

  void RequestFlush() override { inner_->RequestFlush(); }

  // Protocols call this after each input, usually with the same value. Input that was held back is
  // processed before the inner transport reads again, because that read may report at once that the
  // peer's input has ended.
  void SetReading(bool reading) override {
    if (std::exchange(reading_, reading) == reading || state_ != State::kOpen) return;
    if (reading && (!held_.empty() || session_.has_plain())) return WorkLater();
    inner_->SetReading(reading);
  }

  void FinishSending() override {
    finishing_ = true;
    if (state_ == State::kOpen) inner_->FinishSending();
  }

  void Close() override {
    state_ = State::kClosed;
    protocol_ = nullptr;
    timer_.Cancel();
    inner_->Close();
  }

  std::size_t unsent() const override { return inner_->unsent() + pending_.size(); }
  bool HasUnreadInput() const override { return !held_.empty() || inner_->HasUnreadInput(); }
  const Peer& peer() const override { return peer_; }

 private:
  enum class State : std::uint8_t {
    kHandshake,
    kOpen,
    kFailed,  // the alert is being sent; then the protocol's OnClosed is called
    kClosed,
  };

  void Flush() override {}

  // Called by the inner transport. A server's handshake steps are long tasks, because a step takes
  // up to 1 ms and all clients reconnect at once after a restart.
  void Receive(std::string_view bytes) override {
    if (input_ended_) return;
    if (state_ == State::kHandshake && !session_.speaks_first()) {
      held_ += bytes;
      inner_->SetReading(false);
      return WorkLater();
    }
    if (held_.empty()) return Work(bytes);
    const std::string all = std::exchange(held_, {}).append(bytes);
    Work(all);
  }

  void TakeOutput(std::string& out) override {
    if (!pending_.empty()) {
      out += pending_;
      std::string().swap(pending_);
    } else if (state_ == State::kFailed) {
      return Lose(cause_);
    }
    if (state_ == State::kOpen) TakePlain(out);
  }

  // Without close_notify, an attacker may have truncated the data, so the connection counts as
  // lost.
  void OnClosed(Closure closure, std::string_view cause) override {
    if (state_ == State::kFailed) return Lose(cause_);
    if (state_ == State::kHandshake) return Lose(fmt::format("TLS handshake: {}", cause));
    if (closure == Closure::kLost) return Lose(cause);
    if (!input_ended_) Lose("closed by the peer without a TLS close_notify");
  }

  void OnDrained() override {
    if (state_ == State::kOpen) protocol_->OnDrained();
  }

  // Processes as much of `input` as possible and keeps the rest in held_.
  void Work(std::string_view input) {
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

  // Returns whether the handshake is done.
  bool Handshake(std::string_view& input) {
    const Progress progress = session_.Handshake(input, pending_);
    if (!pending_.empty()) inner_->RequestFlush();
    if (progress == Progress::kDone) OnHandshakeDone();
    if (progress == Progress::kFailed) Fail("TLS handshake: " + session_.error());
    return progress == Progress::kDone;
  }

  void ReadAll(std::string_view& input) {
    while (state_ == State::kOpen && reading_ && !input_ended_) {
      std::string_view plain;
      switch (session_.Read(input, pending_, plain)) {
        case Progress::kDone:
          protocol_->Receive(plain);
          if (input.empty() && !session_.has_plain()) return;
          break;
        case Progress::kNeedsInput:
          return;
        case Progress::kEnded:
          input_ended_ = true;
          return protocol_->OnClosed(Closure::kEndOfInput, "closed by the peer");
        case Progress::kFailed:
          return Fail("TLS: " + session_.error());
      }
    }
  }

  void WorkLater() {
    if (std::exchange(work_posted_, true)) return;
    Loop::Task work = [this, alive = std::weak_ptr(alive_)] {
      if (alive.expired()) return;
      work_posted_ = false;
      if (state_ == State::kFailed || state_ == State::kClosed) return;
      const std::string input = std::exchange(held_, {});
      Work(input);
      if (state_ == State::kHandshake) inner_->SetReading(true);
      if (state_ == State::kOpen) inner_->SetReading(reading_);
    };
    if (state_ == State::kOpen) return loop_.Post(std::move(work));
    loop_.PostLong(LongWork::kHandshake, std::move(work));
  }

  void OnHandshakeDone() {
    timer_.Cancel();
    state_ = State::kOpen;
    peer_.identities = session_.peer_identities();
    inner_->SetReading(reading_);
    inner_->RequestFlush();  // the protocol may have requested a flush during the handshake
    if (finishing_) inner_->FinishSending();
  }

  void TakePlain(std::string& out) {
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

  void OnTime() {
    if (state_ == State::kFailed) return Lose(cause_);
    Fail("TLS handshake: not done in time");
  }

  void Fail(std::string cause) {
    state_ = State::kFailed;
    cause_ = std::move(cause);
    timer_.Start(loop_.now() + kAlertTime);
    inner_->SetReading(false);
    inner_->RequestFlush();
  }

  void Lose(std::string_view cause) {
    Protocol& protocol = *protocol_;
    const std::string kept(cause);
    Close();
    protocol.OnClosed(Closure::kLost, kept);
  }

  Loop& loop_;
  const TransportPtr inner_;
  TlsSession session_;
  Timer timer_;  // for the handshake or the alert
  Peer peer_;
  Protocol* protocol_ = nullptr;
  State state_ = State::kHandshake;
  bool reading_ = true;
  bool input_ended_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool work_posted_ = false;
  std::string held_;     // received, not decrypted yet
  std::string pending_;  // encrypted; sent before the protocol's next output
  std::string cause_;    // the cause of the failure
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

TransportPtr AcceptTls(Loop& loop, TransportPtr inner, const TlsServerContext& context, Alpn alpn) {
  return TransportPtr(new TlsTransport(loop, std::move(inner), context.setup(), alpn),
                      TransportDeleter{.loop = &loop});
}

TransportPtr ConnectTls(Loop& loop, TransportPtr inner, const TlsClientContext& context,
                        const std::string& server_name) {
  return TransportPtr(new TlsTransport(loop, std::move(inner), context.setup(), server_name),
                      TransportDeleter{.loop = &loop});
}

}  // namespace sluice::net
