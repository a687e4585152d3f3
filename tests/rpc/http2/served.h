// A server on one io thread. The metadata of a call controls these methods:
//
//   /t/Echo        unary. Returns the request.
//     x-status: N  returns status N with the message in x-message
//     x-hold       holds the call until ReleaseHeld
//   /t/Chat        stream. Echoes every message and ends at the half-close. At the message "end",
//                  it ends with ABORTED instead. After the message "pause", it pauses reading.
//     x-send: N    sends a message of N bytes at once
//     x-deaf       reads nothing until Listen(true)
//     x-refuse     ends with PERMISSION_DENIED at once
//     x-stubborn   does not end at the half-close, when canceled or when draining
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metrics_registry.h"
#include "net/io_threads.h"
#include "rpc/http2/server.h"
#include "tests/rpc/http2/raw_client.h"

namespace sluice::test {

// The time within which a working server answers, even on a busy machine.
inline constexpr std::chrono::seconds kSoon(10);

// Statuses of gRPC.
inline constexpr int kOk = 0, kDeadlineExceeded = 4, kPermissionDenied = 7, kResourceExhausted = 8,
                     kAborted = 10, kUnimplemented = 12, kInternal = 13, kUnavailable = 14;

class Echo;
class Chat;

// Counts the events of the handlers.
struct Seen {
  std::atomic<int> handlers = 0;  // that were made
  std::atomic<int> served = 0;
  std::atomic<int> canceled = 0;
  std::atomic<int> lost = 0;  // answers whose on_lost was called
  std::atomic<int> messages = 0;
  std::atomic<int> half_closed = 0;
  std::atomic<int> drained = 0;
  std::atomic<int> writable = 0;
  std::vector<Echo*> held;  // loop thread only
  std::vector<Chat*> chats;
};

// Compress `text` with gRPC's encodings gzip and deflate.
std::string Gzip(std::string_view text);
std::string Deflate(std::string_view text);

class Served {
 public:
  explicit Served(rpc::http2::ServerOptions options = {}, const rpc::http2::Times& times = {});
  ~Served();

  const Address& address() const { return server_->address(); }
  rpc::http2::Server& server() { return *server_; }
  net::IoThreads& threads() { return threads_; }
  Seen& seen() { return seen_; }
  std::string metrics() const { return registry_.Render(); }

  // Runs `first`, then responds to all held calls in the same iteration.
  void ReleaseHeld(const std::function<void()>& first = [] {});
  // Pauses or resumes reading on all open streams.
  void Listen(bool reading);
  // The bytes that the latest open stream has not sent yet.
  std::size_t unsent();

 private:
  net::IoThreads threads_{1};
  MetricsRegistry registry_;
  Seen seen_;
  std::unique_ptr<rpc::http2::Server> server_;
};

}  // namespace sluice::test
