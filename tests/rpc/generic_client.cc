#include "tests/rpc/generic_client.h"

#include <ostream>

#include "tests/support/require.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

constexpr std::chrono::seconds kTimeout(10);

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const auto& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

void Apply(const CallOptions& options, grpc::ClientContext& context) {
  const auto timeout = options.timeout.value_or(2 * kTimeout);
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  for (const auto& [name, value] : options.metadata) context.AddMetadata(name, value);
  if (options.compression) context.set_compression_algorithm(*options.compression);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << "{" << outcome.code << ", \"" << outcome.message << "\", \"" << outcome.response
             << "\"}";
}

std::shared_ptr<grpc::Channel> ConnectTo(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  static std::atomic<int> number = 0;
  grpc::ChannelArguments arguments;
  arguments.SetInt("test.number", ++number);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

UnaryCalls::UnaryCalls(std::shared_ptr<grpc::Channel> channel)
    : stub_(std::move(channel)), thread_([this] {
        void* tag = nullptr;
        bool ok = false;
        while (queue_.Next(&tag, &ok)) ++ended_;
      }) {}

UnaryCalls::~UnaryCalls() {
  for (const auto& call : calls_) call->context.TryCancel();
  queue_.Shutdown();
  thread_.join();
}

std::size_t UnaryCalls::Start(const std::string& path, const std::string& request,
                              const CallOptions& options) {
  calls_.push_back(std::make_unique<Pending>());
  Pending& call = *calls_.back();
  Apply(options, call.context);
  call.reader = stub_.PrepareUnaryCall(&call.context, path, BufferOf(request), &queue_);
  call.reader->StartCall();
  call.reader->Finish(&call.response, &call.status, &call);
  return calls_.size() - 1;
}

std::vector<Outcome> UnaryCalls::Wait() {
  Require(WaitUntil(2 * kTimeout, [this] { return ended_ == calls_.size(); }),
          "a unary call does not end");
  ended_ = 0;
  std::vector<Outcome> outcomes;
  for (const auto& call : calls_) {
    outcomes.push_back({.code = call->status.error_code(),
                        .message = call->status.error_message(),
                        .response = BytesOf(call->response)});
  }
  calls_.clear();
  return outcomes;
}

Outcome CallUnary(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                  const std::string& request, const CallOptions& options) {
  UnaryCalls calls(channel);
  calls.Start(path, request, options);
  return calls.Wait().front();
}

ClientStream::ClientStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                           const CallOptions& options) {
  Apply(options, context_);
  stream_ = grpc::GenericStub(channel).PrepareCall(&context_, path, &queue_);
  stream_->StartCall(reinterpret_cast<void*>(kStarted));
  Await(kStarted);
}

ClientStream::~ClientStream() {
  context_.TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

// Returns whether the event has arrived.
bool ClientStream::AwaitUntil(Tag wanted, std::chrono::system_clock::time_point deadline) {
  while (!early_.contains(wanted)) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) return false;
    early_[static_cast<Tag>(reinterpret_cast<std::intptr_t>(tag))] = ok;
  }
  return true;
}

bool ClientStream::Await(Tag wanted) {
  Require(AwaitUntil(wanted, std::chrono::system_clock::now() + kTimeout),
          "an operation of a stream does not end");
  return early_.extract(wanted).mapped();
}

bool ClientStream::Write(const std::string& message) {
  StartWrite(message);
  return Await(kWritten);
}

void ClientStream::StartWrite(const std::string& message) {
  stream_->Write(BufferOf(message), reinterpret_cast<void*>(kWritten));
}

bool ClientStream::AwaitWrite(std::chrono::milliseconds patience) {
  if (!AwaitUntil(kWritten, std::chrono::system_clock::now() + patience)) return false;
  return early_.extract(kWritten).mapped();
}

bool ClientStream::HalfClose() {
  stream_->WritesDone(reinterpret_cast<void*>(kClosed));
  return Await(kClosed);
}

std::optional<std::string> ClientStream::Read() {
  grpc::ByteBuffer message;
  stream_->Read(&message, reinterpret_cast<void*>(kRead));
  if (!Await(kRead)) return std::nullopt;
  return BytesOf(message);
}

Outcome ClientStream::Finish() {
  grpc::Status status;
  stream_->Finish(&status, reinterpret_cast<void*>(kFinished));
  Await(kFinished);
  return {.code = status.error_code(), .message = status.error_message(), .response = ""};
}

}  // namespace sluice::test
