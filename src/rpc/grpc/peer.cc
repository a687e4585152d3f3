#include "rpc/grpc/peer.h"

#include <grpc/grpc_security_constants.h>

#include <array>
#include <utility>

namespace sluice::rpc::grpc_engine {
namespace {

// gRPC's properties with the names of a certificate, and the prefixes of their types.
constexpr std::array kNames{
    std::pair{GRPC_PEER_DNS_PROPERTY_NAME, "dns:"},
    std::pair{GRPC_PEER_URI_PROPERTY_NAME, "uri:"},
    std::pair{GRPC_PEER_IP_PROPERTY_NAME, "ip:"},
    std::pair{GRPC_PEER_EMAIL_PROPERTY_NAME, "email:"},
};

// Decodes escaped brackets and percent signs.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i, 3);
    if (rest == "%5B" || rest == "%5D" || rest == "%25") {
      plain += rest == "%5B" ? '[' : rest == "%5D" ? ']' : '%';
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::string PeerAddress(std::string_view uri) {
  if (uri.starts_with("unix")) return "unix";
  return Unescaped(uri.substr(uri.find(':') + 1));
}

net::Peer PeerOf(const ::grpc::GenericCallbackServerContext& context) {
  net::Peer peer{.address = PeerAddress(context.peer())};
  const auto security = context.auth_context();
  const auto type = security->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  peer.tls = !type.empty() && type.front() == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
  for (const auto& [property, prefix] : kNames) {
    for (const auto& name : security->FindPropertyValues(property)) {
      std::string text(name.data(), name.size());
      // Some code would truncate a name at a NUL byte.
      if (text.find('\0') == std::string::npos) peer.identities.push_back(prefix + text);
    }
  }
  return peer;
}

}  // namespace sluice::rpc::grpc_engine
