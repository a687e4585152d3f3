#include "tools/admin_call.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/admin_address.h"
#include "config/diagnostic.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

// Prints how operators reach a server, and the admin sockets of this machine.
void PrintAdminHint() {
  fmt::print(stderr,
             "  For operators:  run the command as the server's user, or give the server's\n"
             "                  admin.listen (--admin ADDRESS) or its admin token (--token-file,\n"
             "                  SLUICE_TOKEN)\n");
  constexpr std::size_t kMost = 5;
  const std::vector<std::string> sockets = FindAdminSockets();
  for (std::size_t i = 0; i < std::min(sockets.size(), kMost); ++i) {
    fmt::print(stderr, "  Found here:     --admin unix:{}\n", sockets[i]);
  }
  if (sockets.size() > kMost) {
    fmt::print(stderr, "                  and {} more\n", sockets.size() - kMost);
  }
}

}  // namespace

void AdminOptions::AddTo(CLI::App& app) {
  server.AddTo(app);
  AddAddress(app, "--admin", "Admin address of the server (default: derived from --addr)", address);
  app.add_flag("--json", json, "Print the API's response as JSON");
}

Result<Target> AdminOptions::ToTarget() const {
  auto target = server.ToTarget();
  if (!target) return target;
  Result<Address> at = target->address;
  if (!address.empty()) {
    at = Address::Parse(address);  // cannot fail: the flag's check has parsed it before
  } else if (target->token.empty() && at->is_local()) {
    if (auto checked = CheckAdminDirectory(*at); !checked) return checked.error();
    at = AdminAddressOf(*at);
  }
  if (!at) return at.error();
  // Admin sockets are plaintext. Over TCP, a token must not be sent without the TLS asked for.
  if (at->is_unix() && *at != target->address) target->tls.reset();
  target->address = *at;
  return target;
}

std::string DomainHint(const AdminOptions& options, const std::string& domain) {
  const auto client = Connect(options.ToTarget());
  if (!client) return "";
  const auto listed = (*client)->Call<v1::ListRulesResponse>(kListRules, v1::ListRulesRequest(),
                                                             options.server.timeout);
  if (!listed) return "";
  std::vector<std::string_view> domains;
  for (const v1::RuleInfo& rule : listed->rules()) domains.push_back(rule.domain());
  return DidYouMean(domain, domains);
}

std::string XdsText(const v1::RulesByXds& xds, std::string_view prefix) {
  std::string text = fmt::format("{}xDS: ", prefix);
  if (xds.has_age()) {
    const auto age = std::chrono::seconds(xds.age().seconds());
    text += fmt::format("version {} with {} resource{}, accepted {} ago", xds.version(),
                        xds.resources(), xds.resources() == 1 ? "" : "s", HumanDuration(age));
  } else {
    text += "no set of rules yet";
  }
  if (!xds.connected()) text += "; the control plane does not answer";
  text += "\n";
  if (!xds.last_refusal().empty()) {
    text += fmt::format("{}xDS: refused {}\n", prefix, xds.last_refusal());
  }
  return text;
}

int FailBeforeAdminCall(const Error& error) {
  const int status = Fail(error);
  if (error.code == ErrorCode::kPermissionDenied) PrintAdminHint();
  return status;
}

int FailAdminCall(const AdminOptions& options, const Address& server, bool answered,
                  const Error& error) {
  const int status = FailCall(server, answered, error, options.json);
  if (!answered && server.is_unix()) PrintAdminHint();
  if (error.code == ErrorCode::kUnauthenticated) {
    fmt::print(stderr, "  Give the token:  --token-file FILE, or set SLUICE_TOKEN\n");
  }
  return status;
}

}  // namespace sluice::tools
