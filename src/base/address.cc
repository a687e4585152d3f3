#include "base/address.h"

#include <fmt/format.h>

#include "base/ip_address.h"
#include "base/text.h"

namespace sluice {
namespace {

Error Malformed(std::string_view text, std::string_view why) {
  return InvalidArgument(
      fmt::format("\"{}\" is not an address ({}); allowed are host:port, [IPv6]:port and unix:PATH",
                  text, why));
}

}  // namespace

bool Address::is_local() const {
  static const IpNetwork kLoopback = *IpNetwork::Parse("127.0.0.0/8");
  const auto ip = IpAddress::Parse(host);
  return is_unix() || host == "localhost" || host == "::1" || (ip && kLoopback.Contains(*ip));
}

std::string Address::ToString() const {
  if (is_unix()) return "unix:" + unix_path;
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

Result<Address> Address::Parse(std::string_view text) {
  Address address;
  if (text.starts_with("unix:")) {
    address.unix_path = text.substr(5);
    if (address.unix_path.empty()) return Malformed(text, "the path is empty");
    if (address.unix_path.size() > 107) return Malformed(text, "the path is over 107 bytes");
    return address;
  }
  if (text.find("://") != std::string_view::npos) {
    return Malformed(text, "an address has no scheme such as http://");
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text, "no port");
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Malformed(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return Malformed(text, "the host is empty");
  address.host = host;
  const auto port = ParseNumber<std::uint16_t>(text.substr(colon + 1));
  if (!port) return Malformed(text, "the port is not a number from 0 to 65535");
  address.port = *port;
  return address;
}

}  // namespace sluice
