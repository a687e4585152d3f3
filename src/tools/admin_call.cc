#include "tools/admin_call.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/admin_address.h"
#include "tools/load_text.h"

namespace sluice::tools {

void AdminOptions::AddTo(CLI::App& app) {
  server.AddTo(app);
  AddAddress(app, "--admin", "Operators' address of the server (default: the socket of --addr's)",
             address);
  app.add_option("--token-file", token_file,
                 "File with the server's admin token, if it wants one (or SLUICE_TOKEN: the token)")
      ->type_name("FILE");
  app.add_flag("--json", json, "Print the API's answer as JSON");
}

Result<std::string> AdminOptions::Token() const {
  if (token_file.empty()) {
    const char* token = std::getenv("SLUICE_TOKEN");
    return std::string(token == nullptr ? "" : token);
  }
  std::ifstream file(token_file);
  std::string token{std::istreambuf_iterator<char>(file), {}};
  if (!file) return InvalidArgument(fmt::format("--token-file: {} cannot be read", token_file));
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  return token;
}

// The flags' checks have parsed both before.
Result<Address> AdminOptions::AddressFor(const std::string& token) const {
  if (!address.empty()) return Address::Parse(address);
  auto public_address = Address::Parse(server.address);
  if (!public_address || !token.empty() || !public_address->is_local()) return public_address;
  if (auto checked = CheckAdminDirectory(*public_address); !checked) return checked.error();
  return AdminAddressOf(*public_address);
}

int FailBeforeCall(const Error& error) {
  fmt::print(stderr, "sluice: {}\n", error.message);
  return kExitError;
}

int FailAdminCall(const AdminOptions& options, const Client& client, const Error& error) {
  if (options.json) fmt::print("{}\n", ErrorJson(error));
  PrintError(client, error);
  if (!client.connected() && client.address().is_unix()) {
    fmt::print(
        stderr,
        "  For operators:  run it as the server's user, or give --admin ADDRESS (the server's "
        "setting\n                  admin.listen) or its token (--token-file, SLUICE_TOKEN)\n");
  }
  if (error.code == ErrorCode::kUnauthenticated) {
    fmt::print(stderr, "  Give the token:  --token-file FILE, or set SLUICE_TOKEN\n");
  }
  return kExitError;
}

}  // namespace sluice::tools
