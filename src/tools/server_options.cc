#include "tools/server_options.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/secret.h"
#include "client/grpc_status.h"
#include "client/message_json.h"
#include "config/scalar_parser.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

// Returns the token, or an error if a header cannot hold it.
Result<std::string> Sendable(const char* source, std::string token) {
  const auto valid = token.empty() ? Result<void>() : ValidateSecret(token);
  if (!valid) return InvalidArgument(fmt::format("{}: {}", source, valid.error().message));
  return token;
}

// The advice if something listens at the address, but the flags do not match it.
std::string_view AdviceFor(std::string_view reason) {
  const auto has = [reason](std::string_view part) { return reason.find(part) != reason.npos; };
  if (has("TLS")) {
    return "  Check TLS:      does the server have TLS; do --tls-ca and --tls-server-name match\n"
           "                  its certificate; does it require --tls-certificate and --tls-key\n";
  }
  if (has("expected SETTINGS")) {  // from nghttp2
    return "  Use gRPC:       --addr must be the server's gRPC address (grpc.listen)\n";
  }
  if (has("closed the connection")) {
    return "  Use TLS:        if the server has TLS, give --tls-ca FILE, or --tls to trust the\n"
           "                  system's authorities\n";
  }
  return "";
}

}  // namespace

void ServerOptions::AddTo(CLI::App& app) {
  AddAddress(app, "--addr", "Server: host:port or unix:PATH", address)
      ->envname("SLUICE_ADDR")
      ->capture_default_str();
  AddDuration(app, "--timeout", "Timeout of each call", timeout)
      ->default_str(fmt::format("{}s", timeout / std::chrono::seconds(1)));
  app.add_flag("--tls", tls, "Use TLS and trust the system's authorities");
  const auto file = [&app](const char* flag, std::string& path, const char* description) {
    return app.add_option(flag, path, description)->type_name("FILE");
  };
  file("--tls-ca", tls_ca, "Use TLS and trust the authorities in this file (PEM)");
  CLI::Option* certificate =
      file("--tls-certificate", tls_certificate, "Use TLS with this client certificate (PEM)");
  CLI::Option* key = file("--tls-key", tls_key, "The private key of --tls-certificate");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--tls-server-name", tls_server_name,
                 "Name that the server's certificate must have (default: the host that is called)")
      ->type_name("NAME");
  file("--token-file", token_file,
       "File with a bearer token, such as the server's admin token (or set SLUICE_TOKEN)");
}

Result<Target> ServerOptions::ToTarget() const {
  auto token = Token();
  if (!token) return token.error();
  Target target{.address = *Address::Parse(address),  // the flag's check has parsed it before
                .tls_server_name = tls_server_name,
                .token = std::move(*token)};
  if (tls || !tls_ca.empty() || !tls_certificate.empty()) {
    target.tls = {.certificate_chain = tls_certificate, .private_key = tls_key, .ca = tls_ca};
  }
  return target;
}

// The content of the token file if one is given, otherwise the environment variable.
Result<std::string> ServerOptions::Token() const {
  if (token_file.empty()) {
    const char* token = std::getenv("SLUICE_TOKEN");
    return Sendable("SLUICE_TOKEN", token == nullptr ? "" : token);
  }
  auto token = ReadFile(token_file);
  if (!token) return InvalidArgument("--token-file: " + token.error().message);
  while (!token->empty() && std::isspace(static_cast<unsigned char>(token->back()))) {
    token->pop_back();
  }
  return Sendable("--token-file", std::move(*token));
}

Result<std::unique_ptr<Client>> Connect(Result<Target> target) {
  if (!target) return target.error();
  return Client::Create(std::move(*target));
}

int Fail(const Error& error) {
  fmt::print(stderr, "sluice: {}\n", error.message);
  return kExitError;
}

int FailCall(const Address& address, bool answered, const Error& error, bool json) {
  if (json) fmt::print("{}\n", ErrorJson(error));
  if (answered) {
    fmt::print(stderr, "sluice: {}: {}\n", CodeName(error.code), error.message);
    return kExitError;
  }
  fmt::print(stderr,
             "sluice: no server answers at {} ({})\n"
             "{}"
             "  Start one:      sluiced --rules config/rules   (or scripts/run.sh)\n"
             "  Ask another:    --addr host:port or unix:PATH, or set SLUICE_ADDR\n",
             address.ToString(), error.message, AdviceFor(error.message));
  return kExitError;
}

std::string IsAddress(const std::string& text) {
  const auto parsed = Address::Parse(text);
  return parsed ? std::string() : parsed.error().message;
}

CLI::Validator NumberWithin(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double number = 0;
    const bool parsed = CLI::detail::lexical_cast(text, number);
    if (parsed && number >= least && number <= most) return std::string();
    return fmt::format("{}: expected a number from {} to {}", text, least, most);
  };
  return {check, fmt::format("FLOAT in [{} - {}]", least, most)};
}

CLI::Option* AddAddress(CLI::App& app, const std::string& flag, const std::string& description,
                        std::string& address) {
  return app.add_option(flag, address, description)->type_name("ADDRESS")->check(IsAddress);
}

Duration DurationOf(const std::string& flag, const std::string& text) {
  const auto parsed = ParseDuration(text);
  if (!parsed) throw CLI::ValidationError(flag, parsed.error().message);
  return *parsed;
}

}  // namespace sluice::tools
