// A gRPC client of methods by path, bytes in and out, that waits: 10 s at most, then the test
// fails.
//
// One thread at a time for each object.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {

struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::vector<std::pair<std::string, std::string>> metadata = {};
  std::optional<grpc_compression_algorithm> compression = std::nullopt;
};

struct Outcome {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;  // of the status
  std::string response;

  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome);

// A channel of its own, not one shared with others to the same address.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address,
                                         const std::shared_ptr<grpc::ChannelCredentials>&
                                             credentials = grpc::InsecureChannelCredentials());

// Many unary calls at once. A thread of its own sees to them, or gRPC would not even connect before
// somebody waits.
class UnaryCalls {
 public:
  explicit UnaryCalls(std::shared_ptr<grpc::Channel> channel);
  ~UnaryCalls();

  // Returns the call's number, from 0.
  std::size_t Start(const std::string& path, const std::string& request,
                    const CallOptions& options = {});
  void Cancel(std::size_t call) { calls_[call]->context.TryCancel(); }
  // Waits for all; their outcomes by number.
  std::vector<Outcome> Wait();

 private:
  struct Pending {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Pending>> calls_;
  std::atomic<std::size_t> ended_ = 0;
  std::thread thread_;
};

// One unary call.
Outcome CallUnary(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                  const std::string& request, const CallOptions& options = {});

// One stream. The functions that wait return false where gRPC's operation fails.
class ClientStream {
 public:
  ClientStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
               const CallOptions& options = {});
  ~ClientStream();

  bool Write(const std::string& message);
  // Write in two steps: begins it; returns whether it ends within `patience`.
  void StartWrite(const std::string& message);
  bool AwaitWrite(std::chrono::milliseconds patience);
  bool HalfClose();
  // The next message; nothing if there are no more.
  std::optional<std::string> Read();
  void Cancel() { context_.TryCancel(); }
  // The status. Waits for the server to finish.
  Outcome Finish();

 private:
  enum Tag : std::intptr_t { kStarted, kWritten, kClosed, kRead, kFinished };
  bool Await(Tag tag);
  bool AwaitUntil(Tag wanted, std::chrono::system_clock::time_point deadline);

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::map<Tag, bool> early_;  // events that came while another was awaited
};

}  // namespace sluice::test
