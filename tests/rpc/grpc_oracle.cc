#include "tests/rpc/grpc_oracle.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace sluice::test {
namespace {

using Context = grpc::GenericCallbackServerContext;
using Reactor = grpc::ServerGenericBidiReactor;

grpc::ByteBuffer BufferOf(std::string_view message) {
  const grpc::Slice slice(message.data(), message.size());
  return {&slice, 1};
}

}  // namespace

// gRPC's threads report events. The call posts them to the io thread, where its handler runs.
class GrpcOracle::OracleCall final : public Reactor,
                                     public rpc::Call,
                                     public rpc::UnaryResponder,
                                     public rpc::StreamResponder {
 public:
  // `method`: null if the server has no method with the call's path.
  OracleCall(net::Loop& loop, const rpc::Method* method, const Context& context)
      : loop_(loop), method_(method), context_(context) {
    loop_.Post([this] { Begin(); });
  }

  // rpc::Call.
  SteadyTime deadline() const override {
    constexpr auto kMax = std::chrono::system_clock::time_point::max().time_since_epoch();
    const std::chrono::seconds seconds(context_.raw_deadline().tv_sec);
    if (seconds >= std::chrono::floor<std::chrono::seconds>(kMax)) return SteadyTime::max();
    return received_ + (context_.deadline() - std::chrono::system_clock::now());
  }
  SteadyTime received() const override { return received_; }
  std::optional<std::string_view> Metadata(std::string_view name) const override {
    const auto [first, last] = context_.client_metadata().equal_range({name.data(), name.size()});
    if (first == last || std::next(first) != last) return std::nullopt;
    return std::string_view(first->second.data(), first->second.size());
  }
  const net::Peer& peer() const override { return peer_; }

  // rpc::UnaryResponder and rpc::StreamResponder.
  void Finish(std::string_view response, std::function<void()>) override {
    if (std::exchange(finished_, true)) return;
    unsent_.push_back(BufferOf(response));
    StartWriteAndFinish(&unsent_.front(), {}, grpc::Status::OK);
  }
  void Finish(const rpc::Status& status) override {
    last_ = grpc::Status(static_cast<grpc::StatusCode>(status.code), status.message);
    WriteNext();
  }
  void Send(std::string_view message) override {
    unsent_.push_back(BufferOf(message));
    unsent_bytes_ += message.size();
    WriteNext();
  }
  std::size_t unsent_bytes() const override { return unsent_bytes_; }
  void SetReading(bool reading) override {
    paused_ = !reading;
    Read();
  }

 private:
  // Called on gRPC's threads.
  void OnReadDone(bool ok) override {
    loop_.Post([this, ok] { HandleRead(ok); });
  }
  void OnWriteDone(bool ok) override {
    loop_.Post([this, ok] { HandleWritten(ok); });
  }
  void OnCancel() override {
    loop_.Post([this] { HandleCancel(); });
  }
  void OnDone() override {}

  // Called on the io thread.
  void Begin() {
    if (method_ == nullptr) {
      return Finish({rpc::StatusCode::kUnimplemented, "unknown method " + context_.method()});
    }
    if (method_->unary) return Read();
    stream_ = method_->stream(loop_);
    stream_->Attach(*this);
    stream_->OnStart(*this);
    Read();
  }

  void Read() {
    if (paused_ || ended_ || last_ || std::exchange(reading_, true)) return;
    StartRead(&message_);
  }

  // A failed read means that the caller has sent its last message or has canceled the call.
  void HandleRead(bool ok) {
    reading_ = false;
    ended_ |= !ok;
    if (finished_ || last_) return;
    if (!ok) {
      if (context_.IsCancelled()) return HandleCancel();
      if (stream_) return stream_->OnHalfClose();
      return Finish({rpc::StatusCode::kInternal, "the request has no message"});
    }
    static_cast<void>(message_.DumpToSingleSlice(&request_).ok());
    const std::string_view request(reinterpret_cast<const char*>(request_.begin()),
                                   request_.size());
    if (!stream_) return Serve(request);
    stream_->OnMessage(request);
    Read();
  }

  void Serve(std::string_view request) {
    unary_ = method_->unary(loop_);
    unary_->Attach(*this);
    unary_->Serve(*this, request);
  }

  void WriteNext() {
    if (finished_ || std::exchange(writing_, !unsent_.empty())) return;
    if (writing_) return StartWrite(&unsent_.front());
    if (!last_) return;
    finished_ = true;
    Reactor::Finish(*last_);
  }

  void HandleWritten(bool ok) {
    if (finished_) return;
    writing_ = false;
    unsent_bytes_ -= unsent_.front().Length();
    unsent_.pop_front();
    if (!ok) return HandleCancel();
    WriteNext();
    if (unsent_.empty() && !last_ && stream_) stream_->OnWritable();
  }

  void HandleCancel() {
    if (std::exchange(finished_, true)) return;
    if (unary_ && !last_) unary_->OnCancel();
    if (stream_ && !last_) stream_->OnCancel();
    Reactor::Finish(grpc::Status(grpc::StatusCode::CANCELLED, "canceled"));
  }

  net::Loop& loop_;
  const rpc::Method* const method_;
  const Context& context_;
  const SteadyTime received_ = SteadyNow();
  const net::Peer peer_;
  std::unique_ptr<rpc::UnaryHandler> unary_;
  std::unique_ptr<rpc::StreamHandler> stream_;
  grpc::ByteBuffer message_;  // owned by gRPC during a read
  grpc::Slice request_;
  bool reading_ = false;
  bool paused_ = false;
  bool ended_ = false;
  std::deque<grpc::ByteBuffer> unsent_;  // the first one is being written
  bool writing_ = false;
  std::size_t unsent_bytes_ = 0;
  std::optional<grpc::Status> last_;  // the final status, sent when unsent_ is empty
  bool finished_ = false;             // gRPC's Finish was called
};

GrpcOracle::GrpcOracle(net::IoThreads& threads, rpc::Methods methods, std::size_t max_message_bytes)
    : threads_(threads), methods_(std::move(methods)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 * 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 4'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.RegisterCallbackGenericService(this);
  server_ = builder.BuildAndStart();
  address_.port = static_cast<std::uint16_t>(port);
}

// Before the calls are destroyed, the loop runs twice: calls may have posted tasks, and these tasks
// may have posted more tasks.
GrpcOracle::~GrpcOracle() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  for (int i = 0; i < 2; ++i) threads_.RunOn(0, [](net::EpollLoop&) {});
  threads_.RunOn(0, [this](net::EpollLoop&) {
    const MutexLock lock(mutex_);
    calls_.clear();
  });
}

Reactor* GrpcOracle::CreateReactor(Context* context) {
  const auto found = std::find_if(methods_.begin(), methods_.end(),
                                  [&](const auto& it) { return it.path == context->method(); });
  const rpc::Method* const method = found == methods_.end() ? nullptr : &*found;
  const MutexLock lock(mutex_);
  return calls_.emplace_back(std::make_unique<OracleCall>(threads_.loop(0), method, *context))
      .get();
}

}  // namespace sluice::test
