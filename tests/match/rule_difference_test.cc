#include "match/rule_difference.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/match/rule_sets.h"

namespace sluice::testing {
namespace {

Domain Shop() {
  return MakeDomain({MakeRule("a", {}), MakeRule("b", {}, {Key("user")}), MakeRule("c", {})});
}

struct Case {
  const char* what;
  std::function<void(Domain&)> edit;
  const char* text;
};

TEST(RuleDifferenceTest, OneEdit_IsNamed) {
  const Case cases[] = {
      {"nothing", [](Domain&) {}, "none changed"},
      {"a move in the file", [](Domain& shop) { shop.rules[0].location = "f.yaml:9"; },
       "none changed"},
      {"another order", [](Domain& shop) { std::swap(shop.rules[0], shop.rules[2]); },
       "none changed"},
      {"a new rule", [](Domain& shop) { shop.rules.push_back(MakeRule("d", {})); },
       "1 added (shop/d)"},
      {"one rule less", [](Domain& shop) { shop.rules.pop_back(); }, "1 removed (shop/c)"},
      {"another name", [](Domain& shop) { shop.rules[1].name = "z"; },
       "1 added (shop/z), 1 removed (shop/b)"},
      {"another limit",
       [](Domain& shop) {
         shop.rules[1].limits.limits = {
             FixedWindow{.limit = 11, .window = std::chrono::seconds(1)}};
       },
       "1 changed (shop/b)"},
      {"another match", [](Domain& shop) { shop.rules[1].match = {{.attribute = "x"}}; },
       "1 changed (shop/b)"},
      {"another key", [](Domain& shop) { shop.rules[1].per.clear(); }, "1 changed (shop/b)"},
      {"shadow", [](Domain& shop) { shop.rules[1].shadow = true; }, "1 changed (shop/b)"},
      {"colocate", [](Domain& shop) { shop.colocate = "user"; }, "1 changed (domain shop)"},
      {"unmatched", [](Domain& shop) { shop.unmatched = Unmatched::kDeny; },
       "1 changed (domain shop)"},
      {"the whole domain", [](Domain& shop) { shop = {.name = "bar"}; },
       "1 added (domain bar), 4 removed (domain shop, shop/a, shop/b, shop/c)"},
  };
  for (const Case& one : cases) {
    Domain edited = Shop();
    one.edit(edited);
    EXPECT_EQ(DescribeDifference(*Index(Shop()), *Index(std::move(edited))), one.text) << one.what;
  }
}

TEST(RuleDifferenceTest, ManyNames_AreCountedAndTheFirstShown) {
  Domain many = Shop();
  for (int i = 0; i < 1'000; ++i) many.rules.push_back(MakeRule(std::to_string(10'000 + i), {}));
  EXPECT_EQ(DescribeDifference(*Index(Shop()), *Index(std::move(many))),
            "1000 added (shop/10000, shop/10001, shop/10002, shop/10003, shop/10004 and 995 more)");
}

}  // namespace
}  // namespace sluice::testing
