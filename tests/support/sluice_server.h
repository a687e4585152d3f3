// A real sluiced on free ports of 127.0.0.1, with its rules in a temporary directory.
//
// Reading the addresses is thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class SluiceServer {
 public:
  struct Options {
    std::string rules;                     // YAML of one domain
    std::string redis_url;                 // empty: the embedded store
    std::vector<std::string> flags;        // added to the flags that this class sets
    std::vector<std::string> environment;  // NAME=value
  };

  // Returns when the server is ready.
  explicit SluiceServer(const Options& options);

  // host:port
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& http_address() const { return http_address_; }

  Process& process() { return process_; }

  // Replaces the rules atomically.
  void WriteRules(const std::string& rules);

 private:
  TempDir dir_;
  Process process_;
  std::string grpc_address_;
  std::string http_address_;
};

}  // namespace sluice::test
