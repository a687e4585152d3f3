#include "http/auth_request.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "config/scalar_parser.h"
#include "limiter/check_request.h"

namespace sluice {
namespace {

// The proxies in the examples wait one second for a response, so the default is shorter.
constexpr std::chrono::milliseconds kDefaultMaxWait(800);
constexpr std::chrono::seconds kLongestMaxWait(60);

constexpr std::string_view kFromHeader = "header.";
constexpr std::string_view kFromPath = "path.";
constexpr std::string_view kAmount = "amount.";
constexpr std::string_view kDomainHeader = "X-Sluice-Domain";
constexpr std::string_view kCostHeader = "X-Sluice-Cost";
constexpr std::string_view kAttributeHeader = "x-sluice-attr-";
constexpr std::string_view kAmountHeader = "x-sluice-amount-";

using Parameter = std::pair<std::string, std::string>;

Error Wrong(std::string_view where, std::string_view found, std::string_view allowed) {
  return InvalidArgument(fmt::format("{}: found \"{}\"; allowed is {}", where, found, allowed));
}

// Repetition is an error. Otherwise, a client that can write part of the query could override the
// proxy's part.
Error GivenTwice(std::string_view name) {
  return InvalidArgument(fmt::format("{}: given twice", name));
}

Error UnknownHeader(std::string_view name) {
  return InvalidArgument(
      fmt::format("{}: unknown; allowed are {}, {}, X-Sluice-Attr-NAME and X-Sluice-Amount-NAME",
                  name, kDomainHeader, kCostHeader));
}

// Whether this is an X-Sluice header that defines no part of a check.
bool IsUnknown(std::string_view lower) {
  return lower.starts_with("x-sluice-") && !lower.starts_with(kAttributeHeader) &&
         !lower.starts_with(kAmountHeader) && !IsName(lower, kDomainHeader) &&
         !IsName(lower, kCostHeader);
}

Result<std::vector<Parameter>> ParseQuery(std::string_view query) {
  std::vector<Parameter> parameters;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const auto name = PercentDecode(pair.substr(0, equals));
    const auto value = PercentDecode(pair.substr(std::min(equals + 1, pair.size())));
    if (!name || !value) {
      return InvalidArgument(
          fmt::format("{}: a % is not followed by two hexadecimal digits", pair.substr(0, equals)));
    }
    parameters.emplace_back(*name, *value);
  }
  return parameters;
}

// Removes empty segments, "." and "..", as servers do, so that "/a//b" and "/a/./b" are equal.
std::string Normalized(std::string_view path) {
  std::vector<std::string_view> segments;
  bool ends_in_slash = true;
  while (!path.empty()) {
    const std::string_view segment = path.substr(0, path.find('/'));
    ends_in_slash = segment.size() < path.size() || segment == "." || segment == "..";
    path.remove_prefix(std::min(segment.size() + 1, path.size()));
    if (segment == ".." && !segments.empty()) segments.pop_back();
    if (!segment.empty() && segment != "." && segment != "..") segments.push_back(segment);
  }
  std::string normalized;
  for (const std::string_view segment : segments) normalized.append("/").append(segment);
  if (ends_in_slash || normalized.empty()) normalized += '/';
  return normalized;
}

// Returns "/boot/pay" for "/boot//pay?id=1" and for "https://shop.test/boot/x/../pay".
std::string PathOf(std::string_view reference) {
  if (const auto scheme = reference.find("://"); scheme < reference.find('/')) {
    const auto path = reference.find('/', scheme + 3);
    reference = path == std::string_view::npos ? "/" : reference.substr(path);
  }
  const std::string_view path = reference.substr(0, reference.find_first_of("?#"));
  return Normalized(PercentDecodeValid(path));
}

// A token of RFC 9110, section 5.6.2.
bool IsHeaderName(std::string_view text) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const auto is_token = [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || kMarks.find(c) != kMarks.npos;
  };
  return !text.empty() && std::ranges::all_of(text, is_token);
}

// Headers to which each proxy appends an item, in the same line or in a new one.
bool IsListOfProxies(std::string_view name) {
  return IsName(name, "X-Forwarded-For") || IsName(name, "Forwarded");
}

// The value of a header that the proxy sets, or empty text if the header is absent. If the header
// lists proxies, returns only the last item: the proxy that sends the request has written it, but
// clients may have written the items before it. Quotes are ignored, because a quote that a client
// leaves open could hide a comma.
Result<std::string_view> ValueOf(const HttpHeaders& headers, std::string_view name) {
  const bool is_list = IsListOfProxies(name);
  const HttpHeaders::value_type* found = nullptr;
  for (const auto& header : headers) {
    if (!IsName(header.first, name)) continue;
    if (found != nullptr && !is_list) return GivenTwice(name);
    found = &header;
  }
  if (found == nullptr) return std::string_view();
  std::string_view value = found->second;
  if (!is_list) return value;
  value.remove_prefix(value.rfind(',') + 1);  // 0 without a comma
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  return value;
}

// The length of the first character of `text`, or 0 if it does not begin with UTF-8.
std::size_t CharacterBytes(std::string_view text) {
  constexpr std::size_t kMax = 4;
  for (std::size_t size = 1; size <= std::min(kMax, text.size()); ++size) {
    if (IsValidUtf8(text.substr(0, size))) return size;
  }
  return 0;
}

// A header's value as an attribute. Clients control headers, and some proxies allow a request on an
// error, so no value may cause an error. Writes bytes that are not UTF-8 as "%FF", and cuts off
// values that are too long.
std::string AttributeOf(std::string value) {
  if (value.size() <= kMaxAttributeValueBytes && IsValidUtf8(value)) return value;
  std::string attribute;
  for (std::string_view rest = value; !rest.empty();) {
    const std::size_t size = CharacterBytes(rest);
    const auto byte = static_cast<unsigned char>(rest.front());
    const std::string next =
        size > 0 ? std::string(rest.substr(0, size)) : fmt::format("%{:02X}", byte);
    if (attribute.size() + next.size() > kMaxAttributeValueBytes) break;
    attribute += next;
    rest.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return attribute;
}

// Builds the check from parameters and headers.
class Builder {
 public:
  explicit Builder(const HttpRequest& request) : request_(request) {}

  Result<void> Take(const Parameter& parameter) {
    const auto& [name, value] = parameter;
    if (IsGiven(name)) return GivenTwice(name);
    if (name == "domain") return TakeDomain(name, value);
    if (name == "cost") return TakeCost(name, value);
    if (name == "max_wait") return TakeMaxWait(value);
    if (name == "deny_status") return TakeDenyStatus(value);
    if (name.starts_with(kAmount)) return TakeAmount(name, name.substr(kAmount.size()), value);
    if (name.starts_with(kFromHeader)) {
      return TakeFromHeader(name.substr(kFromHeader.size()), value, /*path_only=*/false);
    }
    if (name.starts_with(kFromPath)) {
      return TakeFromHeader(name.substr(kFromPath.size()), value, /*path_only=*/true);
    }
    return TakeAttribute(name, value);
  }

  Result<void> TakeHeaders() {
    for (const auto& [name, value] : request_.headers) {
      std::string lower = Lowercase(name);
      if (IsUnknown(lower)) return UnknownHeader(name);
      const bool is_amount = lower.starts_with(kAmountHeader);
      if (!is_amount && !lower.starts_with(kAttributeHeader)) continue;
      lower.erase(0, (is_amount ? kAmountHeader : kAttributeHeader).size());
      std::ranges::replace(lower, '-', '_');
      auto taken =
          is_amount ? TakeAmount(name, lower, value) : TakeAttribute(lower, AttributeOf(value));
      if (!taken) return taken;
    }
    const auto cost = ValueOf(request_.headers, kCostHeader);
    if (!cost) return cost.error();
    if (!cost->empty()) {
      if (IsGiven("cost")) return GivenTwice(kCostHeader);
      if (auto taken = TakeCost(kCostHeader, *cost); !taken) return taken;
    }
    const auto domain = ValueOf(request_.headers, kDomainHeader);
    if (!domain) return domain.error();
    if (!domain->empty()) return TakeDomain(kDomainHeader, *domain);
    return InvalidArgument("domain: missing; give it as a parameter, or as X-Sluice-Domain");
  }

  bool has_domain() const { return !check_.domain().empty(); }

  AuthRequest Build() {
    const Duration delay = request_.may_wait ? max_wait_.value_or(kDefaultMaxWait) : Duration(0);
    FillTime(delay, *check_.mutable_max_delay());
    return {.check = check_.SerializeAsString(), .deny_status = deny_status_.value_or(429)};
  }

 private:
  // Whether this parameter has already been set.
  bool IsGiven(std::string_view name) const {
    if (name == "domain") return has_domain();
    if (name == "cost") return check_.cost() > 0;
    if (name == "max_wait") return max_wait_.has_value();
    return name == "deny_status" && deny_status_;
  }

  Result<void> TakeDomain(std::string_view where, std::string_view value) {
    if (value.empty()) return Wrong(where, value, "the domain of the rules");
    check_.set_domain(std::string(value));
    return {};
  }

  Result<void> TakeCost(std::string_view where, std::string_view value) {
    const auto cost = ParseNumber<std::uint64_t>(value);
    if (!cost || *cost == 0) return Wrong(where, value, "a whole number from 1 to 2^53");
    check_.set_cost(*cost);
    return {};
  }

  Result<void> TakeAmount(std::string_view where, const std::string& name, std::string_view value) {
    const auto amount = ParseNumber<std::uint64_t>(value);
    if (!amount) return Wrong(where, value, "a whole number from 0 to 2^53");
    if (!check_.mutable_amounts()->insert({name, *amount}).second) return GivenTwice(where);
    return {};
  }

  Result<void> TakeMaxWait(std::string_view value) {
    const auto max_wait = ParseDuration(value);
    if (!max_wait || *max_wait > kLongestMaxWait) return Wrong("max_wait", value, "1ms to 60s");
    max_wait_ = *max_wait;
    return {};
  }

  Result<void> TakeDenyStatus(std::string_view value) {
    if (value != "429" && value != "403") return Wrong("deny_status", value, "429 or 403");
    deny_status_ = value == "403" ? 403 : 429;
    return {};
  }

  Result<void> TakeFromHeader(const std::string& name, std::string_view header, bool path_only) {
    if (!IsHeaderName(header)) return Wrong(name, header, "the name of a header");
    // A repeated name is an error even if the header is absent. Otherwise, the client's headers
    // would decide whether the parameters are valid.
    if (!attributes_.insert(name).second) return GivenTwice(name);
    const auto value = ValueOf(request_.headers, header);
    if (!value) return value.error();
    if (value->empty()) return {};
    const std::string attribute = AttributeOf(path_only ? PathOf(*value) : std::string(*value));
    check_.mutable_attributes()->insert({name, attribute});
    return {};
  }

  Result<void> TakeAttribute(const std::string& name, std::string value) {
    if (!attributes_.insert(name).second) return GivenTwice(name);
    check_.mutable_attributes()->insert({name, std::move(value)});
    return {};
  }

  const HttpRequest& request_;
  v1::CheckLimitRequest check_;
  std::set<std::string> attributes_;  // given so far
  std::optional<int> deny_status_;
  std::optional<Duration> max_wait_;
};

}  // namespace

Result<AuthRequest> ParseAuthRequest(const HttpRequest& request) {
  const auto parameters = ParseQuery(request.query);
  if (!parameters) return parameters.error();
  Builder builder(request);
  for (const Parameter& parameter : *parameters) {
    if (auto taken = builder.Take(parameter); !taken) return taken.error();
  }
  if (!builder.has_domain()) {
    if (auto taken = builder.TakeHeaders(); !taken) return taken.error();
  }
  return builder.Build();
}

}  // namespace sluice
