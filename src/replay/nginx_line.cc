#include "replay/nginx_line.h"

#include <algorithm>
#include <charconv>

namespace sluice::replay {
namespace {

constexpr std::string_view kNone;

std::string_view UnlessDash(std::string_view text) { return text == "-" ? kNone : text; }

// Removes the text before `end`, and `end` itself, from `rest`. Returns the text, or null if there
// is no `end`.
std::string_view TakeUntil(char end, std::string_view& rest) {
  const std::size_t found = rest.find(end);
  if (found == std::string_view::npos) return kNone;
  const std::string_view taken = rest.substr(0, found);
  rest.remove_prefix(found + 1);
  return taken;
}

// If `rest` begins with a space and a quote, removes the space. Otherwise returns false.
bool SkipToQuote(std::string_view& rest) {
  if (!rest.starts_with(" \"")) return false;
  rest.remove_prefix(1);
  return true;
}

// Removes the quoted text at the beginning of `rest`. Returns the text, or null if the quote is not
// closed.
std::string_view TakeQuoted(std::string_view& rest) {
  for (std::size_t end = 1; (end = rest.find('"', end)) != std::string_view::npos; ++end) {
    const std::size_t slashes = end - 1 - rest.find_last_not_of('\\', end - 1);
    if (slashes % 2 == 1) continue;
    const std::string_view taken = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return taken;
  }
  return kNone;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

// client_ip ident user [time] "method target protocol" status bytes "referer" "user_agent"
const char* NginxLine::Parse(std::string_view line) {
  auto& [client_ip, user, time, method, endpoint, query, status, bytes, referer, agent, path] =
      fields;
  client_ip = TakeUntil(' ', line);
  if (client_ip.empty() || TakeUntil(' ', line).empty()) return "is not in the combined format";
  const std::size_t bracket = line.find(" [");
  if (bracket == std::string_view::npos) return "has no [time]";
  user = UnlessDash(line.substr(0, bracket));
  line.remove_prefix(bracket + 2);
  time = TakeUntil(']', line);
  if (!SkipToQuote(line)) return "has no \"request\" after its time";
  std::string_view target = TakeQuoted(line);
  if (target.data() == nullptr || !line.starts_with(' ')) return "ends within its request";
  line.remove_prefix(1);
  status = TakeUntil(' ', line);
  bytes = TakeUntil(' ', line);
  if (!IsNumber(status) || (bytes != "-" && !IsNumber(bytes))) return "has no status and bytes";
  bytes = UnlessDash(bytes);
  if (!line.starts_with('"')) return "has no \"referer\"";
  referer = TakeQuoted(line);
  if (referer.data() == nullptr) return "ends within its referer";
  referer = UnlessDash(referer);
  if (!SkipToQuote(line)) return "has no \"user agent\"";
  agent = TakeQuoted(line);
  if (agent.data() == nullptr) return "ends within its user agent";
  agent = UnlessDash(agent);
  method = TakeUntil(' ', target);
  endpoint = method.data() == nullptr ? kNone : target.substr(0, target.find(' '));
  const std::size_t mark = endpoint.find('?');
  query = mark == std::string_view::npos ? kNone : endpoint.substr(mark + 1);
  path = endpoint = endpoint.substr(0, mark);
  return nullptr;
}

void AppendUnescaped(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const std::size_t slash = std::min(text.find('\\'), text.size());
    out.append(text.substr(0, slash));
    text.remove_prefix(slash);
    if (text.size() < 2) break;
    unsigned char byte = 0;
    const char* const digits = text.data() + 2;
    const bool is_hex = text.size() >= 4 && text[1] == 'x' &&
                        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    out += is_hex ? static_cast<char>(byte) : text[1];
    text.remove_prefix(is_hex ? 4 : 2);
  }
}

}  // namespace sluice::replay
