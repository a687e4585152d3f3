#include "rpc/http2/connection.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "net/timer_queue.h"
#include "rpc/http2/session.h"

namespace sluice::rpc::http2 {
namespace {

class Connection final : public net::ServedConnection {
 public:
  Connection(Shard& shard, net::TransportPtr transport, bool has_place)
      : net::ServedConnection(shard.loop(), std::move(transport), has_place,
                              shard.state().options().max_connection_age,
                              shard.state().times().no_place),
        shard_(shard),
        times_(shard.state().times()),
        session_(shard, *transport_),
        started_(shard.loop().now()),
        last_received_(started_),
        last_taken_(started_),
        check_timer_(shard.loop().timers(), [this] { CheckTimes(); }),
        drain_timer_(shard.loop().timers(),
                     [this] { state_ == State::kNoticed ? EndNotice() : EndLinger(); }) {
    if (!has_place) session_.admission().AdmitOnlyProbes();
    shard_.state().shared().metrics.connections.Add(1);
    shard_.state().shared().metrics.connections_total.Increment();
  }

  ~Connection() override { shard_.state().shared().metrics.connections.Add(-1); }

  // net::ServedConnection.
  void Start() override {
    transport_->Start(*this);  // the server's SETTINGS follow the first bytes from the peer
    CheckBy(std::min<SteadyTime>({started_ + times_.preface, too_old_at_, ends_at_}));
  }

  void Drain() override {
    if (state_ != State::kOpen) return;
    state_ = State::kNoticed;
    pinged_at_ = shard_.loop().now();
    drain_timer_.Start(pinged_at_ + times_.notice);
    session_.BeginDrain();
  }

  net::Occupant AsOccupant() const override {
    using Standing = net::Occupant::State;
    SteadyTime stuck = std::min(session_.incomplete_since(), session_.unsent_since());
    if (transport_->unsent() > 0) stuck = std::min(stuck, last_taken_);
    if (!session_.settled()) stuck = std::min(stuck, started_);
    if (state_ == State::kLingering) stuck = std::min(stuck, last_received_);
    if (stuck <= shard_.loop().now() - times_.stuck) return {Standing::kStuck, stuck};
    if (session_.has_calls()) return {Standing::kBusy, last_received_};
    return {session_.admission().used() ? Standing::kIdle : Standing::kUnused, last_received_};
  }

 private:
  enum class State : std::uint8_t { kOpen, kNoticed, kDraining, kLingering, kClosed };

  // net::Protocol.
  void Receive(std::string_view bytes) override {
    if (state_ == State::kLingering) return Discard(bytes.size());
    last_received_ = shard_.loop().now();
    AfterInput(session_.Receive(bytes));
  }

  void TakeOutput(std::string& out) override {
    if (state_ == State::kClosed) return;
    const std::size_t before = out.size();
    session_.TakeOutput(out);
    shard_.PublishOpenCalls();
    if (out.size() > before) {
      last_taken_ = shard_.loop().now();
      CheckBy(last_taken_ + times_.stall);
    } else if (held_back_ && state_ < State::kLingering) {
      ReadWhileTaken();
    }
    const SteadyTime unsent = session_.unsent_since();
    if (unsent != SteadyTime::max()) CheckBy(unsent + times_.stall);
    if (IsDone()) BeginLinger();
  }

  void OnClosed(Closure, std::string_view) override { Close(); }

  void OnClose() override {
    state_ = State::kClosed;
    check_timer_.Cancel();
    resume_.reset();
    drain_timer_.Cancel();
    session_.OnEnd();
    shard_.PublishOpenCalls();
  }

  void AfterInput(bool fine) {
    shard_.PublishOpenCalls();  // a pending call may have no output; then TakeOutput is not called
    if (!fine) return BeginLinger();
    if (session_.paused()) ResumeLater();
    ReadWhileTaken();
    if (state_ == State::kNoticed && !session_.pinged()) EndNotice();
    // The last input, such as a reset or GOAWAY, may need no answer. The flush that is requested
    // here then calls BeginLinger.
    if (IsDone()) transport_->RequestFlush();
    const SteadyTime incomplete = session_.incomplete_since();
    if (incomplete != SteadyTime::max()) CheckBy(incomplete + times_.request);
  }

  // A session pauses when its input takes long. The rest is therefore a long task: it takes turns
  // with the long tasks of other connections.
  void ResumeLater() {
    resume_ = std::make_shared<bool>(true);
    shard_.loop().PostLong(net::LongWork::kHeaders, [this, posted = std::weak_ptr(resume_)] {
      if (!posted.expired()) AfterInput(session_.Resume());
    });
  }

  // Reads nothing from the peer while the peer does not read the output.
  void ReadWhileTaken() {
    held_back_ = transport_->unsent() > 0;
    transport_->SetReading(!session_.paused() && !held_back_);
  }

  void EndNotice() {
    drain_timer_.Cancel();
    state_ = State::kDraining;
    session_.EndDrain();
  }

  void BeginLinger() {
    session_.CloseStreams();
    state_ = State::kLingering;
    check_timer_.Cancel();
    resume_.reset();
    transport_->SetReading(true);
    drain_timer_.Start(shard_.loop().now() + times_.linger);
    transport_->FinishSending();
  }

  // A peer that is still reading gets more time to receive the rest.
  void EndLinger() {
    const SteadyTime now = shard_.loop().now();
    const bool stalled = now - last_taken_ >= times_.stall || now >= ends_at_;
    if (transport_->unsent() == 0 || stalled) return Close();
    drain_timer_.Start(now + times_.linger);
  }

  bool IsDone() const {
    const bool drained = state_ == State::kDraining && !session_.has_streams();
    return state_ < State::kLingering && (drained || session_.ended());
  }

  void CheckTimes() {
    const SteadyTime now = shard_.loop().now();
    if (now >= ends_at_) return Close();
    if (!session_.EndIncomplete(now - times_.request)) return BeginLinger();
    session_.EndUnsent(now - times_.stall);
    const bool stalled = transport_->unsent() > 0 && now - last_taken_ >= times_.stall;
    const bool silent = session_.pinged() && now - pinged_at_ >= times_.ping;
    const bool mute = !session_.settled() && now - started_ >= times_.preface;
    if (stalled || silent || mute) {
      shard_.state().Count(Refusal::kStalled);
      return Close();
    }
    if (!session_.pinged() && now - last_received_ >= times_.keepalive) {
      pinged_at_ = now;
      session_.SendPing();
    }
    if (now >= too_old_at_) Drain();
    CheckBy(NextCheck());
  }

  // The earliest time at which a timeout can expire in the current state.
  SteadyTime NextCheck() const {
    SteadyTime next =
        session_.pinged() ? pinged_at_ + times_.ping : last_received_ + times_.keepalive;
    next = std::min(next, ends_at_);
    if (state_ == State::kOpen) next = std::min(next, too_old_at_);
    if (!session_.settled()) next = std::min<SteadyTime>(next, started_ + times_.preface);
    if (transport_->unsent() > 0) next = std::min(next, last_taken_ + times_.stall);
    const SteadyTime incomplete = session_.incomplete_since();
    if (incomplete != SteadyTime::max()) next = std::min(next, incomplete + times_.request);
    const SteadyTime unsent = session_.unsent_since();
    if (unsent != SteadyTime::max()) next = std::min(next, unsent + times_.stall);
    return next;
  }

  void CheckBy(SteadyTime time) {
    if (state_ >= State::kLingering) return;
    if (!check_timer_.active() || time < check_timer_.at()) check_timer_.Start(time);
  }

  Shard& shard_;
  const Times& times_;
  Session session_;
  State state_ = State::kOpen;
  const SteadyTime started_;
  SteadyTime last_received_;
  SteadyTime last_taken_;  // when output was last taken; all earlier output had been sent
  SteadyTime pinged_at_{};
  bool held_back_ = false;  // not reading, since the peer does not read
  net::Timer check_timer_;
  std::shared_ptr<bool> resume_;  // reset() cancels the task that processes the rest of the input
  net::Timer drain_timer_;
};

}  // namespace

std::unique_ptr<net::ServedConnection> MakeConnection(Shard& shard, net::TransportPtr transport,
                                                      bool has_place) {
  return std::make_unique<Connection>(shard, std::move(transport), has_place);
}

}  // namespace sluice::rpc::http2
