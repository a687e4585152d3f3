// What the connections of an HTTP server share: HttpState on all io threads, HttpLoopState on one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "http/router.h"
#include "metrics/metrics_registry.h"
#include "net/loop.h"
#include "net/tls_context.h"

namespace sluice {

// Limits and timeouts.
struct HttpOptions {
  // Beyond this number, a new connection replaces one whose client does not wait for an answer
  // (net/loop_connections.h). If all clients wait for answers, requests on the new connection are
  // answered with 503, except probes.
  std::size_t max_connections = 1'024;
  // The maximum bytes of unfinished requests and unread answers. Beyond it, connections are closed
  // in the order of net::ChooseVictims.
  std::size_t max_buffered = 32 * 1024 * 1024;
  Duration idle_time = std::chrono::seconds(30);  // from a response to the next request
  // As idle_time, while the server drains. The next response is the connection's last.
  Duration last_idle_time = std::chrono::milliseconds(200);
  Duration request_time = std::chrono::seconds(10);  // from a request's first byte to its last
  Duration answer_time = std::chrono::seconds(30);   // for the client to read a response
  Duration no_place_time = std::chrono::seconds(1);  // the life of a connection without a place
  // The first response after this age (varied by up to 10 %) is the connection's last. Zero: no
  // maximum age.
  Duration max_connection_age{};
  // Null disables TLS. Otherwise must outlive the server.
  const net::TlsServerContext* tls = nullptr;
  // Must outlive the server.
  MetricsRegistry* metrics = &MetricsRegistry::Unread();
};

// Counts connections and requests that the server refuses or closes. Thread-safe.
class HttpMetrics {
 public:
  // `metrics` must outlive this object.
  HttpMetrics(std::size_t max_connections, MetricsRegistry& metrics);

  // A connection got no place. Logs at most once a second.
  void OnRefused();

  // A connection was closed to make room for a new one or to free memory.
  void OnReplaced() { replaced_metric_.Increment(); }

  // A request was refused before it was read completely.
  void OnRefusedRequest() { requests_metric_.Increment(); }

 private:
  const std::size_t max_connections_;
  Counter& refused_metric_;
  Counter& replaced_metric_;
  Counter& requests_metric_;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<SteadyTime> next_log_{};
};

// Thread-safe.
struct HttpState {
  const Router router;
  const HttpOptions options;
  const std::size_t loops;
  HttpMetrics metrics{options.max_connections, *options.metrics};
  std::atomic<std::uint64_t> requests = 0;  // read since the start
};

// Loop thread only.
class HttpLoopState {
 public:
  // `on_too_much` is called when the connections hold too many bytes, and may close connections.
  // `shared`, `loop` and the objects that `on_too_much` uses must outlive this object.
  HttpLoopState(HttpState& shared, net::Loop& loop, std::function<void()> on_too_much)
      : shared_(shared), loop_(loop), on_too_much_(std::move(on_too_much)) {}

  net::Loop& loop() { return loop_; }
  const Router& router() const { return shared_.router; }
  const HttpOptions& options() const { return shared_.options; }
  HttpMetrics& metrics() { return shared_.metrics; }

  // To be called when a request has been read.
  void BeginAnswering() {
    ++answering_;
    shared_.requests.fetch_add(1, std::memory_order_relaxed);
  }
  // To be called when the response is written, or when the connection closes before that.
  void EndAnswering() { --answering_; }

  // Whether a response may be delayed. True if the requests that are being answered take at most
  // half of the loop's places.
  bool MayWait() const {
    const std::size_t half = options().max_connections / 2 / shared_.loops;
    return answering_ <= (half > 0 ? half : 1);
  }

  // Records that a connection held `before` bytes, and now holds `now` bytes.
  void CountBuffered(std::size_t before, std::size_t now) {
    buffered_ += now - before;
    if (buffered_ <= max_buffered() || std::exchange(freeing_, true)) return;
    loop_.Post([this] {
      freeing_ = false;
      on_too_much_();
    });
  }
  std::size_t buffered() const { return buffered_; }
  std::size_t max_buffered() const { return options().max_buffered / shared_.loops; }

 private:
  HttpState& shared_;
  net::Loop& loop_;
  const std::function<void()> on_too_much_;
  std::size_t answering_ = 0;
  std::size_t buffered_ = 0;
  bool freeing_ = false;  // on_too_much_ is posted
};

}  // namespace sluice
