// For measuring the cost of gRPC itself: a CheckLimit server that parses the request and serializes
// a response like Sluice's, but decides nothing. Uses the asynchronous API and gRPC's defaults.
// Prints `ready grpc=HOST:PORT` and runs until killed. --help lists the flags.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/thread.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"
#include "tests/bench/noop_answer.h"

namespace sluice::bench {
namespace {

// Waits for a call. When the call arrives, creates another Call to wait for the next one, and sends
// the answer. Deletes itself when the answer has been sent.
class Call {
 public:
  Call(v1::RateLimiter::AsyncService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue), responder_(&context_) {
    service_.RequestCheckLimit(&context_, &request_, &responder_, &queue_, &queue_, this);
  }

  void Proceed(bool ok) {
    if (answered_ || !ok) {
      delete this;
      return;
    }
    new Call(service_, queue_);
    FillAnswer(request_, response_);
    answered_ = true;
    responder_.Finish(response_, grpc::Status::OK, this);
  }

 private:
  v1::RateLimiter::AsyncService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  v1::CheckLimitRequest request_;
  v1::CheckLimitResponse response_;
  grpc::ServerAsyncResponseWriter<v1::CheckLimitResponse> responder_;
  bool answered_ = false;
};

void Serve(v1::RateLimiter::AsyncService& service, grpc::ServerCompletionQueue& queue) {
  constexpr int kCallsAwaited = 64;
  for (int i = 0; i < kCallsAwaited; ++i) new Call(service, queue);
  void* tag;
  for (bool ok; queue.Next(&tag, &ok);) static_cast<Call*>(tag)->Proceed(ok);
}

struct Options {
  int queues = 2;  // completion queues, each with its own thread
};

void Run(const Options& options) {
  v1::RateLimiter::AsyncService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < options.queues; ++i) queues.push_back(builder.AddCompletionQueue());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::vector<Thread> threads;
  for (const auto& queue : queues) {
    threads.emplace_back("grpc", [&service, &queue = *queue] { Serve(service, queue); });
  }
  std::printf("ready grpc=127.0.0.1:%d\n", port);
  std::fflush(stdout);
  for (Thread& thread : threads) thread.Join();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Options options;
  CLI::App app("A CheckLimit server that decides nothing.", "noop_server");
  app.add_option("--queues", options.queues, "Completion queues, each with its own thread")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  sluice::bench::Run(options);
}
