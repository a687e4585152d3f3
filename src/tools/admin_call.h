// A call of the admin API: its flags, and the output of its response.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/App.hpp>

#include "client/client.h"
#include "client/message_json.h"
#include "sluice/v1/admin.pb.h"
#include "tools/command.h"
#include "tools/server_options.h"

namespace sluice::tools {

struct AdminOptions {
  ServerOptions server{.timeout = std::chrono::seconds(10)};
  std::string address;  // of the admin API; empty: derived from the server's address
  bool json = false;

  void AddTo(CLI::App& app);

  // The target is `address`, if set. Otherwise, if a token is set or the server is on another
  // machine, it is the server's address. In all other cases, it is the server's admin socket. The
  // flags of TLS apply to all of these but admin sockets.
  Result<Target> ToTarget() const;
};

// The text that a command prints unless --json is set, and its exit status.
struct Outcome {
  std::string text;
  int status = 0;
};

// ` (did you mean "shop"?)` with the server's domain that is most similar to `domain`; "" if no
// domain is similar, or the server does not list its rules to this caller.
std::string DomainHint(const AdminOptions& options, const std::string& domain);

// The state of rules from a control plane, one fact per line, each after `prefix`.
std::string XdsText(const v1::RulesByXds& xds, std::string_view prefix);

// Prints an error that occurred before the call, and returns the exit status.
int FailBeforeAdminCall(const Error& error);

// Prints the error of a call to `server` as text or JSON, and returns the exit status.
int FailAdminCall(const AdminOptions& options, const Address& server, bool answered,
                  const Error& error);

inline constexpr char kListRules[] = "/sluice.v1.Admin/ListRules";

// Calls the method at `path` and prints the text that `conclude` returns for the response, or the
// response as JSON. Returns the exit status.
template <typename Response>
int CallAdmin(const AdminOptions& options, const char* path,
              const google::protobuf::Message& request,
              const std::function<Outcome(const Response&)>& conclude) {
  const auto client = Connect(options.ToTarget());
  if (!client) return FailBeforeAdminCall(client.error());
  const auto response = (*client)->Call<Response>(path, request, options.server.timeout);
  if (!response) {
    return FailAdminCall(options, (*client)->address(), (*client)->connected(), response.error());
  }
  const Outcome outcome = conclude(*response);
  fmt::print("{}", options.json ? MessageJson(*response) + "\n" : outcome.text);
  return outcome.status;
}

}  // namespace sluice::tools
