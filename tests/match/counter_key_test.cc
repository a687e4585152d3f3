// The counter keys that Match returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/hash.h"
#include "match/counter_key.h"
#include "match/rule_index.h"
#include "tests/match/rule_sets.h"

namespace sluice {
namespace {

using namespace sluice::testing;
using std::string_literals::operator""s;

std::string KeyOf(const RuleIndex& index, const std::vector<Attribute>& attributes) {
  const MatchResult result = Find(index, attributes);
  return result.count == 1 ? result.rules[0].key_prefix : "";
}

TEST(CounterKey, AttributesAndValues_AreJoined_ValuesAreEscaped) {
  const auto index = Index(MakeDomain({MakeRule("r", {}, {Key("a"), Key("b")})}));
  const struct {
    std::string a;
    std::string b;
    std::string key;
  } kRows[] = {
      {"x", "y", "sluice:{shop/r/a=x/b=y}:"},
      {"", "", "sluice:{shop/r/a=/b=}:"},
      {"x/y", "", "sluice:{shop/r/a=x%2Fy/b=}:"},
      {"50%", "{a}", "sluice:{shop/r/a=50%25/b=%7Ba%7D}:"},
      {"#", "a b", "sluice:{shop/r/a=%23/b=a%20b}:"},
      {"\0\n"s, "\x7F", "sluice:{shop/r/a=%00%0A/b=%7F}:"},
      {"日本", "a:b", "sluice:{shop/r/a=日本/b=a:b}:"},
      {"b=", "==", "sluice:{shop/r/a=b=/b===}:"},
      {std::string(195, 'x'), "", "sluice:{shop/r/a=" + std::string(195, 'x') + "/b=}:"},
      {std::string(196, 'x'), "",
       "sluice:{shop/r/#" + Sha256Hex128("a=" + std::string(196, 'x') + "/b=") + "}:"},
  };
  for (const auto& row : kRows) EXPECT_EQ(KeyOf(*index, {{"a", row.a}, {"b", row.b}}), row.key);
}

// If a rule is changed to count by another attribute, it gets new counters.
TEST(CounterKey, OtherAttributes_HaveOtherKeys_OrderIsIrrelevant) {
  const std::vector<Attribute> facts = {{"user", "42"}, {"org", "42"}, {"a=b", "c"}, {"a", "b=c"}};
  const auto key = [&](std::vector<KeyPart> per) {
    return KeyOf(*Index(MakeDomain({MakeRule("r", {}, std::move(per))})), facts);
  };
  EXPECT_EQ(key({Key("user")}), "sluice:{shop/r/user=42}:");
  EXPECT_EQ(key({Key("org")}), "sluice:{shop/r/org=42}:");
  EXPECT_EQ(key({Key("user"), Key("org")}), "sluice:{shop/r/org=42/user=42}:");
  EXPECT_EQ(key({Key("org"), Key("user")}), "sluice:{shop/r/org=42/user=42}:");
  EXPECT_EQ(key({Key("a=b")}), "sluice:{shop/r/a%3Db=c}:");
  EXPECT_EQ(key({Key("a")}), "sluice:{shop/r/a=b=c}:");
}

TEST(CounterKey, Tag_ContainsTheCountedNames) {
  const auto tag = [](Counts counts, std::string name = {}) {
    RuleLimit limit(FixedWindow{.limit = 1, .window = std::chrono::seconds(60)}, std::move(name));
    limit.counts = std::move(counts);
    return CounterTag(limit);
  };
  EXPECT_EQ(tag({}), "fixed_window:1m");
  EXPECT_EQ(tag({{"cost", 5}}), "fixed_window:1m") << "weights do not matter";
  EXPECT_EQ(tag({{"requests", 1}}), "fixed_window:1m=requests");
  EXPECT_EQ(tag({{"in", 3}, {"out", 15}}), "fixed_window:1m=in,out");
  EXPECT_EQ(tag({{"cost", 1}, {"in", 1}}), "fixed_window:1m=cost,in");
  EXPECT_EQ(tag({{"in", 1}}, "a.b"), "fixed_window:1m.a.b=in");
  EXPECT_EQ(tag({{"a,b", 1}}), "fixed_window:1m=a%2Cb") << "differs from the tag of two names";
  EXPECT_EQ(tag({{"a:concurrency", 1}}), "fixed_window:1m=a%3Aconcurrency")
      << "must not end like the key of a concurrency limit";
  EXPECT_EQ(tag({{"a b=", 1}, {"{,}", 1}}), "fixed_window:1m=a%20b=,%7B%2C%7D");
  const std::string longest(200, 'x');
  EXPECT_EQ(tag({{longest, 1}}), "fixed_window:1m=" + longest);
  EXPECT_EQ(tag({{longest + "x", 1}}), "fixed_window:1m=#" + Sha256Hex128(longest + "x"));
}

TEST(CounterKey, WithoutPer_AllRequestsShareOneCounter) {
  Domain domain = MakeDomain({MakeRule("r", {})});
  domain.name = "a/{b} c";
  const auto index = *RuleIndex::Build({domain}, {});
  MatchResult result;
  index->Match("a/{b} c", {}, result);
  EXPECT_EQ(result.rules[0].key_prefix, "sluice:{a%2F%7Bb%7D%20c/r/}:");
}

TEST(CounterKey, Address_IsCanonicalAndMasked) {
  const auto index =
      Index(MakeDomain({MakeRule("r", {}, {{"ip", 24, 64}}), MakeRule("full", {}, {Key("ip")})}));
  const struct {
    std::string address;
    std::string masked;
    std::string full;
  } kRows[] = {
      {"10.1.2.3", "10.1.2.0/24", "10.1.2.3"},
      {"::ffff:10.1.2.3", "10.1.2.0/24", "10.1.2.3"},
      {"2001:DB8:0:1:2:3:4:5", "2001:db8:0:1::/64", "2001:db8:0:1:2:3:4:5"},
      {"fe80:0::1%eth0", "fe80::/64", "fe80::1"},
  };
  for (const auto& row : kRows) {
    const MatchResult result = Find(*index, {{"ip", row.address}});
    EXPECT_EQ(result.rules[0].key_prefix, "sluice:{shop/r/ip=" + row.masked + "}:");
    EXPECT_EQ(result.rules[1].key_prefix, "sluice:{shop/full/ip=" + row.full + "}:");
  }
  const MatchResult unparsable = Find(*index, {{"ip", "nowhere"}});
  EXPECT_EQ(unparsable.rules[0].outcome, RuleMatch::Outcome::kSkipped);
  EXPECT_EQ(unparsable.rules[1].key_prefix, "sluice:{shop/full/ip=nowhere}:");
}

TEST(CounterKey, AddressWithFullOrNoPrefix_HasNoPrefixLength) {
  const auto index = Index(MakeDomain({MakeRule("r", {}, {{"ip", 32, {}}})}));
  EXPECT_EQ(KeyOf(*index, {{"ip", "10.1.2.3"}}), "sluice:{shop/r/ip=10.1.2.3}:");
  EXPECT_EQ(KeyOf(*index, {{"ip", "::1"}}), "sluice:{shop/r/ip=::1}:");
}

TEST(CounterKey, ClientIp_IsCanonicalByDefault) {
  const auto index =
      Index(MakeDomain({MakeRule("r", {}, {Key("client_ip")}), MakeRule("o", {}, {Key("other")})}));
  const MatchResult result = Find(*index, {{"client_ip", "0:0::1"}, {"other", "0:0::1"}});
  EXPECT_EQ(result.rules[0].key_prefix, "sluice:{shop/r/client_ip=::1}:");
  EXPECT_EQ(result.rules[1].key_prefix, "sluice:{shop/o/other=0:0::1}:");
}

TEST(CounterKey, Colocate_SharesTheHashTag) {
  Domain domain =
      MakeDomain({MakeRule("one", {}, {Key("user")}), MakeRule("two", {}, {Key("ip"), Key("user")}),
                  MakeRule("without", {}, {Key("ip")})});
  domain.colocate = "user";
  const auto index = Index(domain);
  const MatchResult result = Find(*index, {{"user", "a}b"}, {"ip", "i"}});
  EXPECT_EQ(result.rules[0].key_prefix, "sluice:{shop/user=a%7Db}one/user=a%7Db:");
  EXPECT_EQ(result.rules[1].key_prefix, "sluice:{shop/user=a%7Db}two/ip=i/user=a%7Db:");
  EXPECT_EQ(result.rules[2].key_prefix, "sluice:{shop/without/ip=i}:");
}

// Some values are short and consist of special bytes. The others have lengths near the length at
// which keys are hashed. Each pair of values must have its own key.
TEST(CounterKey, DifferentSubjects_NeverShareAKey) {
  const auto index = Index(MakeDomain({MakeRule("r", {}, {Key("a"), Key("b")})}));
  std::vector<std::string> values{""};
  const std::string alphabet = "/%2F#{}=a \0\x7F"s;
  for (const char c : alphabet) {
    values.push_back({c});
    for (const char d : alphabet) values.push_back({c, d});
  }
  for (const std::size_t length : {193, 194, 195, 196, 197}) {
    values.push_back(std::string(length, 'x'));
  }
  values.push_back("#" + Sha256Hex128("a=" + std::string(196, 'x') + "/b="));
  std::map<std::string, std::pair<std::string, std::string>> owners;
  for (const std::string& a : values) {
    for (const std::string& b : values) {
      const std::string key = KeyOf(*index, {{"a", a}, {"b", b}});
      const auto [owner, is_new] = owners.try_emplace(key, a, b);
      EXPECT_EQ(owner->second, (std::pair{a, b})) << key;
      const auto end = key.find('}');
      EXPECT_EQ(end, key.size() - 2) << "the first } must end the hash tag: " << key;
    }
  }
}

}  // namespace
}  // namespace sluice
