#include "tests/support/sluice_server.h"

#include "tests/support/require.h"

namespace sluice::test {

namespace {

constexpr std::chrono::seconds kStartTimeout(20);

Process::Options CommandLine(const TempDir& dir, const SluiceServer::Options& options) {
  dir.Write("rules/test.yaml", options.rules);
  Process::Options command{.argv = {SLUICED_PATH, "--rules", dir.path() / "rules", "--grpc",
                                    "127.0.0.1:0", "--http", "127.0.0.1:0"},
                           .environment = options.environment};
  if (!options.redis_url.empty()) {
    command.argv.insert(command.argv.end(), {"--redis", options.redis_url});
  }
  command.argv.insert(command.argv.end(), options.flags.begin(), options.flags.end());
  return command;
}

// The value of `name` in a line of pairs NAME=VALUE, separated by spaces.
std::string ValueOf(const std::string& line, const std::string& name) {
  const std::size_t at = line.find(name + "=");
  Require(at != std::string::npos, "no " + name + "= in: " + line);
  const std::size_t begin = at + name.size() + 1;
  return line.substr(begin, line.find(' ', begin) - begin);
}

}  // namespace

SluiceServer::SluiceServer(const Options& options) : process_(CommandLine(dir_, options)) {
  const auto ready = process_.WaitForLine("ready grpc=", kStartTimeout);
  Require(ready.has_value(), "sluiced does not start:\n" + process_.Output());
  grpc_address_ = ValueOf(*ready, "grpc");
  http_address_ = ValueOf(*ready, "http");
}

void SluiceServer::WriteRules(const std::string& rules) {
  std::filesystem::rename(dir_.Write("rules.next", rules), dir_.path() / "rules/test.yaml");
}

}  // namespace sluice::test
