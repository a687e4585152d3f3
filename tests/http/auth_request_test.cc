#include "http/auth_request.h"

#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <map>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Attributes = std::map<std::string, std::string>;
using Amounts = std::map<std::string, std::uint64_t>;

struct Asked {
  std::string domain;
  Attributes attributes;
  std::uint64_t cost = 1;
  int deny_status = 429;
  int max_delay_ms = 800;
  Amounts amounts = {};

  bool operator==(const Asked&) const = default;
};

void PrintTo(const Asked& asked, std::ostream* out) {
  *out << asked.domain << " cost " << asked.cost << " deny " << asked.deny_status << " delay "
       << asked.max_delay_ms;
  for (const auto& [name, value] : asked.attributes) *out << " " << name << "=" << value;
  for (const auto& [name, value] : asked.amounts) *out << " amount " << name << "=" << value;
}

HttpRequest Request(std::string query, HttpHeaders headers) {
  return {.method = "GET",
          .path = "/v1/auth",
          .query = std::move(query),
          .headers = std::move(headers),
          .body = {},
          .peer = {}};
}

Asked Ask(std::string query, HttpHeaders headers) {
  const auto parsed = ParseAuthRequest(Request(std::move(query), std::move(headers)));
  if (!parsed) return {.domain = parsed.error().message, .attributes = {}};
  v1::CheckLimitRequest check;
  EXPECT_TRUE(check.ParseFromString(parsed->check));
  EXPECT_EQ(check.mode(), v1::MODE_UNSPECIFIED);
  EXPECT_FALSE(check.has_max_wait()) << "max_wait would let token buckets delay answers";
  EXPECT_TRUE(check.has_max_delay());
  return {.domain = check.domain(),
          .attributes = {check.attributes().begin(), check.attributes().end()},
          .cost = check.has_cost() ? check.cost() : 1,
          .deny_status = parsed->deny_status,
          .max_delay_ms = static_cast<int>(check.max_delay().seconds() * 1'000 +
                                           check.max_delay().nanos() / 1'000'000),
          .amounts = {check.amounts().begin(), check.amounts().end()}};
}

TEST(AuthRequest, Queries_BecomeChecks) {
  const struct {
    std::string query;
    HttpHeaders headers;
    Asked expected;
  } rows[] = {
      {"domain=shop", {}, {"shop", {}}},
      {"domain=shop&user=42&endpoint=%2Fboot%20x",
       {},
       {"shop", {{"user", "42"}, {"endpoint", "/boot x"}}}},
      {"&domain=shop&&flag", {}, {"shop", {{"flag", ""}}}},
      {"domain=shop&a=b=c+d", {}, {"shop", {{"a", "b=c+d"}}}},
      {"domain=shop&cost=9007199254740992&deny_status=403",
       {},
       {"shop", {}, 9007199254740992, 403}},
      {"domain=shop&max_wait=1500ms", {}, {"shop", {}, 1, 429, 1'500}},
      {"max_wait=60s", {{"X-Sluice-Domain", "shop"}}, {"shop", {}, 1, 429, 60'000}},
      {"domain=shop&header.user=X-User", {{"x-user", "7"}}, {"shop", {{"user", "7"}}}},
      {"domain=shop&header.user=X-User", {}, {"shop", {}}},
      // Each proxy appends an item to the header. The last is from the proxy in front of Sluice.
      {"domain=shop&header.ip=X-Forwarded-For",
       {{"X-Forwarded-For", "192.0.2.1"}, {"x-forwarded-for", "192.0.2.2 , 192.0.2.3"}},
       {"shop", {{"ip", "192.0.2.3"}}}},
      {"domain=shop&header.for=Forwarded",
       {{"Forwarded", "for=\"a"}, {"Forwarded", "for=192.0.2.3;proto=http"}},
       {"shop", {{"for", "for=192.0.2.3;proto=http"}}}},
      {"domain=shop&header.a=X-A", {{"X-A", "1, 2"}}, {"shop", {{"a", "1, 2"}}}},
      // A client's URL can neither add attributes nor end the value early.
      {"domain=shop&path.endpoint=X-Original-URI",
       {{"X-Original-URI", "/pay%2f1?user=1&domain=x"}},
       {"shop", {{"endpoint", "/pay/1"}}}},
      {"domain=shop&path.endpoint=U",
       {{"U", "https://shop.test/pay#x"}},
       {"shop", {{"endpoint", "/pay"}}}},
      {"domain=shop&path.endpoint=U", {{"U", "https://shop.test"}}, {"shop", {{"endpoint", "/"}}}},
      {"domain=shop&path.endpoint=U", {{"U", "/a?b=http://c/d"}}, {"shop", {{"endpoint", "/a"}}}},
      {"domain=shop&path.endpoint=U", {{"U", "/100%"}}, {"shop", {{"endpoint", "/100%"}}}},
      {"",
       {{"X-Sluice-Domain", "shop"},
        {"X-Sluice-Attr-Client-Ip", "192.0.2.1"},
        {"x-sluice-cost", "3"}},
       {"shop", {{"client_ip", "192.0.2.1"}}, 3}},
      {"deny_status=403", {{"X-Sluice-Domain", "shop"}}, {"shop", {}, 1, 403}},
      {"domain=shop&amount.tokens=5&amount.a%20b=0&amounts=1",
       {{"X-Sluice-Amount-Tokens", "6"}},
       {"shop", {{"amounts", "1"}}, 1, 429, 800, {{"tokens", 5}, {"a b", 0}}}},
      {"",
       {{"X-Sluice-Domain", "shop"},
        {"X-Sluice-Amount-Input-Tokens", "9007199254740992"},
        {"x-sluice-amount-bytes", "0"}},
       {"shop", {}, 1, 429, 800, {{"input_tokens", 9007199254740992}, {"bytes", 0}}}},
      // If the proxy's URL has the domain, a client's own X-Sluice headers have no effect.
      {"domain=shop",
       {{"X-Sluice-Domain", "x"}, {"X-Sluice-Attr-Plan", "gold"}, {"X-Sluice-Cost", "0"}},
       {"shop", {}}},
      {"domain=shop", {{"X-Sluice-Max-Wait", "1s"}}, {"shop", {}}},
  };
  for (const auto& row : rows) EXPECT_EQ(Ask(row.query, row.headers), row.expected) << row.query;
}

TEST(AuthRequest, TooManyOthersWait_CheckAllowsNoDelay) {
  HttpRequest request = Request("domain=a&max_wait=1s", {});
  request.may_wait = false;
  v1::CheckLimitRequest check;
  ASSERT_TRUE(check.ParseFromString(ParseAuthRequest(request).value().check));
  EXPECT_TRUE(check.has_max_delay());
  EXPECT_EQ(check.max_delay().seconds() + check.max_delay().nanos(), 0);
}

TEST(AuthRequest, Paths_AreNormalized) {
  const std::map<std::string, std::string> rows = {
      {"/", "/"},           {"/a", "/a"},          {"/a/", "/a/"},        {"//a///b", "/a/b"},
      {"/./a/.", "/a/"},    {"/x/../a", "/a"},     {"/../../a", "/a"},    {"/a/..", "/"},
      {"/a/b/..", "/a/"},   {"/x/%2e%2E/a", "/a"}, {"/x%2f..%2fa", "/a"}, {"a", "/a"},
      {"/a/...", "/a/..."}, {"/a;b/c", "/a;b/c"},  {"http://h//a", "/a"}, {"?x", "/"},
  };
  for (const auto& [written, path] : rows) {
    EXPECT_EQ(Ask("domain=d&path.endpoint=U", {{"U", written}}), (Asked{"d", {{"endpoint", path}}}))
        << written;
  }
}

// Backends decode the valid escapes of a path that also has an invalid one.
TEST(AuthRequest, PathsWithInvalidEscapes_AreDecodedOtherwise) {
  const std::map<std::string, std::string> rows = {
      {"/%61pi/x%", "/api/x%"}, {"/%61/%4", "/a/%4"},   {"/%zz%61", "/%zza"},
      {"/%%61%4g", "/%a%4g"},   {"/%2/%2e%2e/a", "/a"},
  };
  for (const auto& [written, path] : rows) {
    EXPECT_EQ(Ask("domain=d&path.endpoint=U", {{"U", written}}), (Asked{"d", {{"endpoint", path}}}))
        << written;
  }
}

// Some proxies allow a request if its check ends with an error. If a header that is too long or not
// UTF-8 caused an error, a client could use the header to avoid the check.
TEST(AuthRequest, HeadersThatAreTooLongOrNotUtf8_StillBecomeAttributes) {
  const std::string e = "\xC3\xA9";
  const std::map<std::string, std::string> rows = {
      {"/caf%C3%A9", "/caf" + e},
      {"/caf%E9", "/caf%E9"},
      {"/caf" + e + "/%c3%a9%ff%C3", "/caf" + e + "/" + e + "%FF%C3"},
      {"/%ED%A0%80", "/%ED%A0%80"},  // a surrogate
      {"/x/%ff/../../pay", "/pay"},
      {"/" + std::string(9'000, 'a'), "/" + std::string(8'191, 'a')},
      {"/a" + std::string(8'000, '.') + std::string(2'000, '\xff'), "/a" + std::string(8'000, '.') +
                                                                        [] {
                                                                          std::string escaped;
                                                                          for (int i = 0; i < 63;
                                                                               ++i)
                                                                            escaped += "%FF";
                                                                          return escaped;
                                                                        }()},
  };
  for (const auto& [written, path] : rows) {
    EXPECT_EQ(Ask("domain=d&path.endpoint=U", {{"U", written}}), (Asked{"d", {{"endpoint", path}}}))
        << written;
  }
  EXPECT_EQ(Ask("domain=d&header.user=U", {{"U", "\xff" + e}}),
            (Asked{"d", {{"user", "%FF" + e}}}));
  EXPECT_EQ(Ask("", {{"X-Sluice-Domain", "d"}, {"X-Sluice-Attr-User", "\xff"}}),
            (Asked{"d", {{"user", "%FF"}}}));
}

TEST(AuthRequest, InvalidRequest_ErrorSaysWhereAndWhatIsWrong) {
  const struct {
    std::string query;
    HttpHeaders headers;
    std::string message;
  } rows[] = {
      {"", {}, "domain: missing; give it as a parameter, or as X-Sluice-Domain"},
      {"domain=", {}, "domain: found \"\"; allowed is the domain of the rules"},
      {"domain=a&cost=0", {}, "cost: found \"0\"; allowed is a whole number from 1 to 2^53"},
      {"domain=a&cost=-1", {}, "cost: found \"-1\"; allowed is a whole number from 1 to 2^53"},
      {"domain=a&cost=18446744073709551616",
       {},
       "cost: found \"18446744073709551616\"; allowed is a whole number from 1 to 2^53"},
      {"domain=a&amount.tokens=-1",
       {},
       "amount.tokens: found \"-1\"; allowed is a whole number from 0 to 2^53"},
      {"domain=a&amount.tokens",
       {},
       "amount.tokens: found \"\"; allowed is a whole number from 0 to "
       "2^53"},
      {"domain=a&amount.tokens=1&amount.tokens=1", {}, "amount.tokens: given twice"},
      {"",
       {{"X-Sluice-Domain", "a"}, {"X-Sluice-Amount-In", "1.5"}},
       "X-Sluice-Amount-In: found \"1.5\"; allowed is a whole number from 0 to 2^53"},
      {"",
       {{"X-Sluice-Domain", "a"}, {"X-Sluice-Amount-In", "1"}, {"x-sluice-amount-in", "2"}},
       "x-sluice-amount-in: given twice"},
      {"domain=a&deny_status=500", {}, "deny_status: found \"500\"; allowed is 429 or 403"},
      {"domain=a&max_wait=61s", {}, "max_wait: found \"61s\"; allowed is 1ms to 60s"},
      {"domain=a&max_wait=1", {}, "max_wait: found \"1\"; allowed is 1ms to 60s"},
      {"domain=a&max_wait=1s&max_wait=2s", {}, "max_wait: given twice"},
      {"domain=a&user=%4", {}, "user: a % is not followed by two hexadecimal digits"},
      {"domain=a&user=1&user=2", {}, "user: given twice"},
      {"domain=a&cost=5&cost=1", {}, "cost: given twice"},
      {"cost=5", {{"X-Sluice-Domain", "a"}, {"X-Sluice-Cost", "1"}}, "X-Sluice-Cost: given twice"},
      {"domain=a&domain=b", {}, "domain: given twice"},
      {"domain=a&deny_status=403&deny_status=429", {}, "deny_status: given twice"},
      {"domain=a&header.user=", {}, "user: found \"\"; allowed is the name of a header"},
      {"domain=a&path.p=X%20Y", {}, "p: found \"X Y\"; allowed is the name of a header"},
      {"domain=a&user=1&header.user=X", {{"X", "2"}}, "user: given twice"},
      {"domain=a&user=1&header.user=X", {}, "user: given twice"},
      {"domain=a&header.user=X&header.user=Y", {}, "user: given twice"},
      {"header.a=X", {{"X-Sluice-Domain", "a"}, {"X-Sluice-Attr-A", "1"}}, "a: given twice"},
      {"",
       {{"X-Sluice-Domain", "a"}, {"X-Sluice-Attr-A", "1"}, {"x-sluice-attr-a", "2"}},
       "a: given twice"},
      // Some proxies append their header after the client's. If Sluice accepted both, the client
      // could choose the value.
      {"domain=a&header.user=X-User", {{"X-User", "1"}, {"x-user", "2"}}, "X-User: given twice"},
      {"domain=a&path.endpoint=U", {{"U", ""}, {"U", "/"}}, "U: given twice"},
      {"", {{"X-Sluice-Domain", "a"}, {"x-sluice-domain", "b"}}, "X-Sluice-Domain: given twice"},
      {"",
       {{"X-Sluice-Domain", "a"}, {"X-Sluice-Cost", "1"}, {"X-Sluice-Cost", "2"}},
       "X-Sluice-Cost: given twice"},
      {"",
       {{"X-Sluice-Domain", "a"}, {"X-Sluice-Atr-User", "1"}},
       "X-Sluice-Atr-User: unknown; allowed are X-Sluice-Domain, X-Sluice-Cost, "
       "X-Sluice-Attr-NAME and X-Sluice-Amount-NAME"},
      {"",
       {{"x-sluice-max-wait", "1s"}, {"X-Sluice-Domain", "a"}},
       "x-sluice-max-wait: unknown; allowed are X-Sluice-Domain, X-Sluice-Cost, "
       "X-Sluice-Attr-NAME and X-Sluice-Amount-NAME"},
      {"",
       {{"X-Sluice-Domain", "a"}, {"X-Sluice-Cost", "x"}},
       "X-Sluice-Cost: found \"x\"; allowed is a whole number from 1 to 2^53"},
  };
  for (const auto& row : rows) {
    const auto parsed = ParseAuthRequest(Request(row.query, row.headers));
    ASSERT_FALSE(parsed) << row.query;
    EXPECT_EQ(parsed.error().message, row.message);
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sluice
