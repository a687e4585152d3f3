#include "service/peer.h"

#include <optional>
#include <string>

#include "base/ip_address.h"

namespace sluice {
namespace {

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The host of "[::1]:8081", whose brackets may be percent-encoded; a zone is left out.
std::string_view HostOfV6(std::string_view address) {
  if (!TakePrefix(address, "[") && !TakePrefix(address, "%5B")) return "";
  return address.substr(0, address.find_first_of("]%"));
}

bool IsLoopback(std::string_view host) {
  static const IpNetwork v4 = IpNetwork::Parse("127.0.0.0/8").value();
  static const IpNetwork v6 = IpNetwork::Parse("::1/128").value();
  const auto address = IpAddress::Parse(host);  // one of IPv4 inside IPv6 is IPv4
  return address && (v4.Contains(*address) || v6.Contains(*address));
}

}  // namespace

bool IsLocalPeer(std::string_view peer) {
  if (peer.starts_with("unix:") || peer.starts_with("unix-abstract:")) return true;
  if (TakePrefix(peer, "ipv4:")) return IsLoopback(peer.substr(0, peer.rfind(':')));
  if (TakePrefix(peer, "ipv6:")) return IsLoopback(HostOfV6(peer));
  return false;
}

}  // namespace sluice
