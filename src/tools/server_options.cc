#include "tools/server_options.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "client/status.h"
#include "tools/text.h"

namespace sluice::tools {

void ServerOptions::AddTo(CLI::App& app) {
  AddAddress(app, "--addr", "Server: host:port or unix:PATH", address)
      ->envname("SLUICE_ADDR")
      ->capture_default_str();
  AddDuration(app, "--timeout", "Longest wait for one answer", [this](Duration parsed) {
    timeout = parsed;
  })->default_str(fmt::format("{}s", timeout / std::chrono::seconds(1)));
}

CLI::Option* AddAddress(CLI::App& app, const std::string& flag, const std::string& description,
                        std::string& address) {
  const auto check = [](const std::string& text) {
    const auto parsed = Address::Parse(text);
    return parsed ? std::string() : parsed.error().message;
  };
  return app.add_option(flag, address, description)->type_name("ADDRESS")->check(check);
}

CLI::Option* AddDuration(CLI::App& app, const std::string& flag, const std::string& description,
                         std::function<void(Duration)> set) {
  const auto parse = [flag, set = std::move(set)](const std::string& text) {
    const auto parsed = ParseDuration(text);
    if (!parsed) throw CLI::ValidationError(flag, parsed.error().message);
    set(*parsed);
  };
  return app.add_option_function<std::string>(flag, parse, description)->type_name("DURATION");
}

void PrintNoServer(const Address& address, std::string_view reason) {
  fmt::print(stderr,
             "sluice: no server answers at {} ({})\n"
             "  Start one:      sluiced --rules config/rules   (or scripts/run.sh)\n"
             "  Ask another:    --addr host:port or unix:PATH, or set SLUICE_ADDR\n",
             address.ToString(), reason);
}

void PrintError(const Client& client, const Error& error) {
  if (client.connected()) {
    fmt::print(stderr, "sluice: {}: {}\n", ToString(error.code), error.message);
    return;
  }
  // gRPC wraps what the system said twice.
  std::string_view reason = error.message;
  constexpr std::string_view kWrapping = "last error: UNKNOWN: ";
  if (const auto at = reason.find(kWrapping); at != reason.npos) {
    reason.remove_prefix(at + kWrapping.size());
  }
  PrintNoServer(client.address(), reason);
}

}  // namespace sluice::tools
