// For measuring the cost of Sluice's own gRPC server: like noop_server.cc, but on rpc/http2. Prints
// `ready grpc=HOST:PORT` and runs until killed. --help lists the flags.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "net/io_threads.h"
#include "rpc/http2/server.h"
#include "tests/bench/noop_answer.h"

namespace sluice::bench {
namespace {

class NoopCheck final : public rpc::UnaryHandler {
 public:
  void Serve(const rpc::Call&, std::string_view request) override {
    request_.ParseFromArray(request.data(), static_cast<int>(request.size()));
    response_.Clear();
    FillAnswer(request_, response_);
    response_.SerializeToString(&bytes_);
    Finish(bytes_);
  }

 private:
  v1::CheckLimitRequest request_;
  v1::CheckLimitResponse response_;
  std::string bytes_;
};

int Run(std::uint16_t port, std::size_t thread_count) {
  net::IoThreads threads(thread_count);
  threads.Start();
  rpc::Methods methods{{.path = "/sluice.v1.RateLimiter/CheckLimit",
                        .unary = [](net::Loop&) { return std::make_unique<NoopCheck>(); }}};
  rpc::http2::ServerOptions options;
  options.address = {.host = "127.0.0.1", .port = port};
  const auto server = rpc::http2::Server::Start(threads, std::move(methods), options);
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().message.c_str());
    return 1;
  }
  std::printf("ready grpc=%s\n", (*server)->address().ToString().c_str());
  std::fflush(stdout);
  for (;;) pause();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  std::uint16_t port = 0;
  std::size_t threads = 2;
  CLI::App app("A CheckLimit server that decides nothing, on rpc/http2.", "noop_http2");
  app.add_option("--port", port, "Port on 127.0.0.1; 0: any")->capture_default_str();
  app.add_option("--threads", threads, "Io threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return sluice::bench::Run(port, threads);
}
