#include "tools/server_options.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/secret.h"
#include "client/status.h"
#include "config/scalar_parser.h"
#include "tools/command.h"

namespace sluice::tools {
namespace {

Result<std::string> ReadFileOf(const char* flag, const std::string& path) {
  auto text = ReadFile(path);
  if (!text) return InvalidArgument(fmt::format("{}: {}", flag, text.error().message));
  return text;
}

// gRPC would end the process, and print the token, if a header cannot hold it.
Result<std::string> Sendable(const char* source, std::string token) {
  const auto valid = token.empty() ? Result<void>() : ValidateSecret(token);
  if (!valid) return InvalidArgument(fmt::format("{}: {}", source, valid.error().message));
  return token;
}

// The advice if something listens at the address but does not match the flags.
std::string_view AdviceFor(std::string_view reason) {
  const auto has = [reason](std::string_view part) { return reason.find(part) != reason.npos; };
  if (has("http1.x"))
    return "  That is HTTP:   --addr is the server's gRPC address (grpc.listen)\n";
  if (has("Socket closed") || has("closed the connection")) {
    return "  If it has TLS:  --tls-ca FILE, or --tls to trust the system's authorities\n";
  }
  if (has("andshake") || has("certificate") || has("Endpoint read") || has("address list")) {
    return "  Check TLS:      does it have TLS; do --tls-ca and --tls-server-name match its\n"
           "                  certificate; does it require --tls-certificate and --tls-key\n";
  }
  return "";
}

}  // namespace

void ServerOptions::AddTo(CLI::App& app) {
  AddAddress(app, "--addr", "Server: host:port or unix:PATH", address)
      ->envname("SLUICE_ADDR")
      ->capture_default_str();
  AddDuration(app, "--timeout", "Timeout of each call", [this](Duration parsed) {
    timeout = parsed;
  })->default_str(fmt::format("{}s", timeout / std::chrono::seconds(1)));
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
                 "Name that the server's certificate must have (default: the host of --addr)")
      ->type_name("NAME");
  file("--token-file", token_file,
       "File with a bearer token, such as the server's admin token (or set SLUICE_TOKEN)");
}

Result<ClientCredentials> ServerOptions::Credentials() const {
  ClientCredentials credentials{.tls = HasTls(), .server_name = tls_server_name};
  auto token = Token();
  if (!token) return token.error();
  credentials.token = std::move(*token);
  for (const auto& [flag, path, text] :
       {std::tuple("--tls-ca", &tls_ca, &credentials.ca),
        {"--tls-certificate", &tls_certificate, &credentials.certificate},
        {"--tls-key", &tls_key, &credentials.key}}) {
    if (path->empty()) continue;
    auto read = ReadFileOf(flag, *path);
    if (!read) return read.error();
    *text = std::move(*read);
  }
  return credentials;
}

// The content of the token file if one is given, else the environment variable.
Result<std::string> ServerOptions::Token() const {
  if (token_file.empty()) {
    const char* token = std::getenv("SLUICE_TOKEN");
    return Sendable("SLUICE_TOKEN", token == nullptr ? "" : token);
  }
  auto token = ReadFileOf("--token-file", token_file);
  if (!token) return token;
  while (!token->empty() && std::isspace(static_cast<unsigned char>(token->back()))) {
    token->pop_back();
  }
  return Sendable("--token-file", std::move(*token));
}

Result<std::unique_ptr<Client>> ServerOptions::Connect() const {
  const auto credentials = Credentials();
  if (!credentials) return credentials.error();
  return std::make_unique<Client>(*Address::Parse(address), *credentials);
}

Result<void> ServerOptions::FillIn(load::Plan& plan) const {
  auto token = Token();
  if (!token) return token.error();
  plan.address = *Address::Parse(address);  // cannot fail: the flag's check has parsed it before
  plan.timeout = timeout;
  plan.token = std::move(*token);
  if (HasTls()) {
    plan.tls_server_name = tls_server_name;
    plan.tls = {.certificate_chain = tls_certificate, .private_key = tls_key, .ca = tls_ca};
  }
  return {};
}

int FailBeforeCall(const Error& error) {
  fmt::print(stderr, "sluice: {}\n", error.message);
  return kExitError;
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
             "{}"
             "  Start one:      sluiced --rules config/rules   (or scripts/run.sh)\n"
             "  Ask another:    --addr host:port or unix:PATH, or set SLUICE_ADDR\n",
             address.ToString(), reason, AdviceFor(reason));
}

void PrintError(const Client& client, const Error& error) {
  if (client.connected()) {
    fmt::print(stderr, "sluice: {}: {}\n", ToString(error.code), error.message);
    return;
  }
  // gRPC wraps the system's error twice.
  std::string_view reason = error.message;
  constexpr std::string_view kWrapping = "last error: UNKNOWN: ";
  if (const auto at = reason.find(kWrapping); at != reason.npos) {
    reason.remove_prefix(at + kWrapping.size());
  }
  PrintNoServer(client.address(), reason);
}

}  // namespace sluice::tools
