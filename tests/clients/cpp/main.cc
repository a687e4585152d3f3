// The C++ gRPC library as a client of sluiced. ../run.py describes the test cases.
//
// Usage: client FLAG...
// run.py passes the flags and describes them.
#include <chrono>
#include <functional>
#include <iostream>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "tests/clients/cpp/client.h"

namespace sluice {
namespace {

constexpr std::pair<std::string_view, void (Client::*)()> kChecks[] = {
    {"unary", &Client::Unary},
    {"batch", &Client::Batch},
    {"stream", &Client::StreamOfFrames},
    {"metadata", &Client::Metadata},
    {"error_message", &Client::ErrorMessage},
    {"large_batch", &Client::LargeBatchOfChecks},
    {"too_large", &Client::TooLarge},
    {"unknown_method", &Client::UnknownMethod},
    {"gzip", &Client::Gzip},
    {"deadline", &Client::Deadline},
    {"cancel", &Client::Cancel},
    {"concurrent", &Client::Concurrent},
    {"health_check", &Client::HealthCheck},
    {"health_watch", &Client::HealthWatch},
    {"reflection", &Client::Reflection},
    {"keepalive", &Client::Keepalive},
    {"reconnect", &Client::Reconnect},
    {"graceful_stop", &Client::GracefulStop},
};

bool Passes(std::string_view name, const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run();
  } catch (const Failure& failure) {
    std::cout << "FAIL " << name << ": " << failure.what() << std::endl;
    return false;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::cout << fmt::format("ok   {} ({:.0f} ms)", name, took.count()) << std::endl;
  return true;
}

int Main(const Strings& arguments) {
  Flags flags;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    flags[arguments[i].substr(2)] = arguments[i + 1];
  }
  Client client(flags);
  const std::string only = "," + flags["only"] + ",";
  int runs = 0;
  int failures = 0;
  for (const auto& [name, check] : kChecks) {
    if (only != ",," && only.find(fmt::format(",{},", name)) == std::string::npos) continue;
    ++runs;
    if (!Passes(name, [&, run = check] { (client.*run)(); })) ++failures;
  }
  return runs > 0 && failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main({argv + 1, argv + argc}); }
