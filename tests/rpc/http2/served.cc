#include "tests/rpc/http2/served.h"

#include <zlib.h>

#include <algorithm>

#include "rpc/handler.h"

namespace sluice::test {

class Echo final : public rpc::UnaryHandler {
 public:
  explicit Echo(Seen& seen) : seen_(seen) { ++seen_.handlers; }

  void Serve(const rpc::Call& call, std::string_view request) override {
    ++seen_.served;
    request_ = request;
    if (call.Metadata("x-hold")) return seen_.held.push_back(this);
    const auto status = call.Metadata("x-status");
    if (!status) return Finish(request, [&seen = seen_] { ++seen.lost; });
    const auto code = static_cast<rpc::StatusCode>(std::stoi(std::string(*status)));
    Finish(
        rpc::Status{.code = code, .message = std::string(call.Metadata("x-message").value_or(""))});
  }

  void OnCancel() override { ++seen_.canceled; }

  void Release() {
    Finish(request_, [&seen = seen_] { ++seen.lost; });
  }

 private:
  Seen& seen_;
  std::string_view request_;  // valid until Finish
};

class Chat final : public rpc::StreamHandler {
 public:
  explicit Chat(Seen& seen) : seen_(seen) { ++seen_.handlers; }

  void OnStart(const rpc::Call& call) override {
    ++seen_.served;
    seen_.chats.push_back(this);
    stubborn_ = call.Metadata("x-stubborn").has_value();
    if (call.Metadata("x-deaf")) SetReading(false);
    if (const auto size = call.Metadata("x-send")) {
      Send(std::string(std::stoul(std::string(*size)), 'x'));
    }
    if (call.Metadata("x-refuse")) End({.code = rpc::StatusCode::kPermissionDenied});
  }

  void OnMessage(std::string_view message) override {
    ++seen_.messages;
    if (message == "end") return End({.code = rpc::StatusCode::kAborted, .message = "as asked"});
    Send(message);
    if (message == "pause") SetReading(false);
  }

  void OnHalfClose() override {
    ++seen_.half_closed;
    if (!stubborn_) End({});
  }
  void OnWritable() override { ++seen_.writable; }
  void OnDrain() override {
    ++seen_.drained;
    if (!stubborn_) End({.code = rpc::StatusCode::kUnavailable, .message = "draining"});
  }
  void OnCancel() override {
    ++seen_.canceled;
    if (!stubborn_) End({.code = rpc::StatusCode::kCancelled});
  }

  void Listen(bool reading) { SetReading(reading); }
  std::size_t unsent() const { return unsent_bytes(); }

 private:
  void End(const rpc::Status& status) {
    std::erase(seen_.chats, this);
    Finish(status);
  }

  Seen& seen_;
  bool stubborn_ = false;
};

namespace {

std::string Compress(std::string_view text, int format) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1024, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string Gzip(std::string_view text) { return Compress(text, 15 + 16); }
std::string Deflate(std::string_view text) { return Compress(text, 15); }

Served::Served(rpc::http2::ServerOptions options, const rpc::http2::Times& times) {
  threads_.Start();
  if (!options.address.is_unix()) options.address.host = "127.0.0.1";
  options.metrics = &registry_;
  options.metadata = {"x-hold", "x-status",   "x-message", "x-send",
                      "x-deaf", "x-stubborn", "x-refuse"};
  rpc::Methods methods = {
      {.path = "/t/Echo", .unary = [this](net::Loop&) { return std::make_unique<Echo>(seen_); }},
      {.path = "/t/Chat", .stream = [this](net::Loop&) { return std::make_unique<Chat>(seen_); }}};
  server_ =
      std::move(rpc::http2::Server::Start(threads_, std::move(methods), options, times).value());
}

Served::~Served() { server_.reset(); }

void Served::ReleaseHeld(const std::function<void()>& first) {
  threads_.RunOn(0, [&](net::EpollLoop&) {
    first();
    for (Echo* const echo : std::exchange(seen_.held, {})) echo->Release();
  });
}

void Served::Listen(bool reading) {
  threads_.RunOn(0, [&](net::EpollLoop&) {
    for (Chat* const chat : std::vector<Chat*>(seen_.chats)) chat->Listen(reading);
  });
}

std::size_t Served::unsent() {
  std::size_t unsent = 0;
  threads_.RunOn(0, [&](net::EpollLoop&) { unsent = seen_.chats.back()->unsent(); });
  return unsent;
}

}  // namespace sluice::test
