// A blocking gRPC client that calls methods by path with raw bytes. If a wait takes too long (10 s;
// for unary calls, 20 s), the test program ends with an error.
//
// Not thread-safe.
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

// A new channel, which shares no connection with other channels to the same address.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address,
                                         const std::shared_ptr<grpc::ChannelCredentials>&
                                             credentials = grpc::InsecureChannelCredentials());

// Many concurrent unary calls. A separate thread polls for their events, because gRPC needs a
// polling thread even to connect.
class UnaryCalls {
 public:
  explicit UnaryCalls(std::shared_ptr<grpc::Channel> channel);
  ~UnaryCalls();

  // Returns the call's number, from 0.
  std::size_t Start(const std::string& path, const std::string& request,
                    const CallOptions& options = {});
  void Cancel(std::size_t call) { calls_[call]->context.TryCancel(); }
  // Waits for all calls. Returns their outcomes by number.
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

// Makes one unary call.
Outcome CallUnary(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                  const std::string& request, const CallOptions& options = {});

// A stream. Write, AwaitWrite and HalfClose return false if the operation fails.
class ClientStream {
 public:
  ClientStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
               const CallOptions& options = {});
  ~ClientStream();

  bool Write(const std::string& message);
  // A write in two steps. StartWrite begins the write. AwaitWrite waits for its end, and returns
  // false if that takes longer than `patience`.
  void StartWrite(const std::string& message);
  bool AwaitWrite(std::chrono::milliseconds patience);
  bool HalfClose();
  // The next message, or nullopt if there are no more.
  std::optional<std::string> Read();
  void Cancel() { context_.TryCancel(); }
  // Waits until the server finishes the call. Returns the status.
  Outcome Finish();

 private:
  enum Tag : std::intptr_t { kStarted, kWritten, kClosed, kRead, kFinished };
  bool Await(Tag tag);
  bool AwaitUntil(Tag wanted, std::chrono::system_clock::time_point deadline);

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::map<Tag, bool> early_;  // events that arrived before the test waited for them
};

}  // namespace sluice::test
