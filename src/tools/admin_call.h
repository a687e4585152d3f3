// One call of a server's operators' API: its flags, and what becomes of its answer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/App.hpp>

#include "client/admin_client.h"
#include "tools/command.h"
#include "tools/message_json.h"
#include "tools/server_options.h"

namespace sluice::tools {

struct AdminOptions {
  ServerOptions server{.timeout = std::chrono::seconds(10)};
  std::string address;  // of the operators' API; empty: follows from the server's
  bool json = false;

  void AddTo(CLI::App& app);

  // Connects to the address given for operators, else with a token to the server's own, else, if
  // the server is on this machine, to its operators' socket.
  Result<std::unique_ptr<Client>> Connect() const;

 private:
  Result<Address> AddressFor(const std::string& token) const;
};

// What a command prints, unless JSON is wanted, and its exit status.
struct Outcome {
  std::string text;
  int status = 0;
};

// Prints `error` as the options want it, and returns the exit status.
int FailAdminCall(const AdminOptions& options, const Client& client, const Error& error);

// Makes the call and prints what `conclude` says of the answer, or the answer itself as JSON.
// Returns the exit status.
template <typename Request, typename Response>
int CallAdmin(const AdminOptions& options,
              Result<Response> (AdminClient::*method)(const Request&, Duration),
              const Request& request, const std::function<Outcome(const Response&)>& conclude) {
  const auto client = options.Connect();
  if (!client) return FailBeforeCall(client.error());
  AdminClient admin(**client);
  const auto response = (admin.*method)(request, options.server.timeout);
  if (!response) return FailAdminCall(options, **client, response.error());
  const Outcome outcome = conclude(*response);
  fmt::print("{}", options.json ? MessageJson(*response) + "\n" : outcome.text);
  return outcome.status;
}

}  // namespace sluice::tools
