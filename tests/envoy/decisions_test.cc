// The decisions of Envoy's service with every store: tables of requests and their answers.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/envoy/rls_fixture.h"

namespace sluice::envoy {
namespace {

INSTANTIATE_TEST_SUITE_P(Stores, RlsTest, testing::Values("memory", "redis", "cluster"),
                         test::NameOfStore);

TEST_P(RlsTest, Descriptor_GetsTheMostSpecificLimit) {
  Serve(R"(
domain: d
descriptors:
  - {key: exact, value: v, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: exact, value: v*, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: exact, value: "*v", rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: exact, rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: mid, value: /v*/users/*/x, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: all, value: "*", rate_limit: {unit: minute, requests_per_unit: 6}}
  - key: only
    value: here
    rate_limit: {unit: minute, requests_per_unit: 7}
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 8}
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 9}}
      - key: b
        value: "2"
        descriptors:
          - {key: c, rate_limit: {unit: minute, requests_per_unit: 10}}
      - {key: b, value: allowed}
  - key: a
    value: "1"
    descriptors:
      - {key: b, value: one, rate_limit: {unit: minute, requests_per_unit: 11}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: nothing}
)");
  ExpectAnswers({
      {"d; exact=v", "OK; OK 0/1 minute 20s"},
      {"d; exact=vv", "OK; OK 1/2 minute 20s"},  // the first pattern
      {"d; exact=wv", "OK; OK 2/3 minute 20s"},
      {"d; exact=w", "OK; OK 3/4 minute 20s"},
      {"d; exact=", "OK; OK 3/4 minute 20s"},
      {"d; exact", "OK; OK 2/4 minute 20s"},
      {"d; exact=v*", "OK; OK 1/2 minute 20s"},
      {"d; exact=V", "OK; OK 3/4 minute 20s"},  // upper and lower case differ
      {"d; exac=v", "OK; OK"},
      {"d; exact=v,exact=v", "OK; OK"},
      {"d; mid=/v1/users/7/x", "OK; OK 4/5 minute 20s"},
      {"d; mid=/v/users//x", "OK; OK 4/5 minute 20s"},
      {"d; mid=/v1/users/7/y", "OK; OK"},
      {"d; mid=/v1/user/7/x", "OK; OK"},
      {"d; mid=v1/users/7/x", "OK; OK"},
      {"d; all=anything", "OK; OK 5/6 minute 20s"},
      {"d; all=", "OK; OK 5/6 minute 20s"},
      {"d; all", "OK; OK 4/6 minute 20s"},
      {"d; only=here", "OK; OK 6/7 minute 20s"},
      {"d; only=there", "OK; OK"},
      {"d; only", "OK; OK"},
      {"d; a=x", "OK; OK 7/8 minute 20s"},
      {"d; a=x,b=y", "OK; OK 8/9 minute 20s"},
      {"d; a=x,b=y,c=z", "OK; OK"},  // no node at this depth
      {"d; a=x,b=2", "OK; OK"},      // b=2 has no limit; there is no backtracking
      {"d; a=x,b=2,c=z", "OK; OK 9/10 minute 20s"},
      {"d; a=x,b=allowed", "OK; OK"},
      {"d; a=1", "OK; OK"},  // exact, without a limit
      {"d; a=1,b=one", "OK; OK 10/11 minute 20s"},
      {"d; a=1,b=y", "OK; OK"},  // no backtracking to the `a` that has no value
      {"d; b=y,a=x", "OK; OK"},  // the order of entries matters
      {"d; a=x,x=1,b=y", "OK; OK"},
      {"d; free", "OK; OK inf"},
      {"d; free=1", "OK; OK inf"},
      {"d; nothing=1", "OK; OK"},
      {"d; ", "OK; OK"},  // a descriptor without entries
      {"other; exact=v", "OK; OK"},
      {"D; exact=v", "OK; OK"},
      {"d; exact=v; nothing; a=z; free",
       "OVER; OVER 0/1 minute 20s; OK; OK 7/8 minute 20s; OK inf"},
  });
}

TEST_P(RlsTest, Windows_AreAlignedToTheClock) {
  std::string rules = "domain: d\ndescriptors:\n";
  for (const std::string_view unit : std::span(kUnitNames).subspan(1)) {
    rules += fmt::format("- {{key: {0}, rate_limit: {{unit: {0}, requests_per_unit: 2}}}}\n", unit);
  }
  Serve(rules);
  ExpectAnswers({
      // A Friday, 13:46:40.
      {"d; second", "OK; OK 1/2 second 1s"},
      {"d; minute", "OK; OK 1/2 minute 20s"},
      {"d; hour", "OK; OK 1/2 hour 800s"},
      {"d; day", "OK; OK 1/2 day 36800s"},
      {"d; week", "OK; OK 1/2 week 468800s"},  // to Thursday
      {"d; month", "OK; OK 1/2 month 814400s"},
      {"d; year", "OK; OK 1/2 year 6430400s"},
      {"d; minute", "OK; OK 0/2 minute 20s"},
      {"d; minute", "OVER; OVER 0/2 minute 20s"},
      {"+19", ""},
      {"d; minute", "OVER; OVER 0/2 minute 1s"},
      {"d; second", "OK; OK 1/2 second 1s"},
      {"+1", ""},
      {"d; minute", "OK; OK 1/2 minute 60s"},
      {"d; hour", "OK; OK 0/2 hour 780s"},
      {"d; hour", "OVER; OVER 0/2 hour 780s"},
      {"+780", ""},
      {"d; hour", "OK; OK 1/2 hour 3600s"},
      {"d; week", "OK; OK 0/2 week 468000s"},
      {"+467999", ""},
      {"d; week", "OVER; OVER 0/2 week 1s"},
      {"d; day", "OK; OK 1/2 day 1s"},
      {"+1", ""},
      {"d; week", "OK; OK 1/2 week 604800s"},
      {"d; day", "OK; OK 1/2 day 86400s"},
      {"d; month", "OK; OK 0/2 month 345600s"},
      {"+345600", ""},
      {"d; month", "OK; OK 1/2 month 2592000s"},
      {"d; year", "OK; OK 0/2 year 5616000s"},
      {"+5616000", ""},
      {"d; year", "OK; OK 1/2 year 31536000s"},
  });
}

TEST_P(RlsTest, Hits_AreCounted_NegativeHitsAreRefunded) {
  Serve(kHitRules);
  ExpectAnswers({
      {"d; k=a", "OK; OK 9/10 minute 20s"},
      {"d h0; k=a", "OK; OK 8/10 minute 20s"},  // 0 hits of the request mean 1
      {"d h3; k=a", "OK; OK 5/10 minute 20s"},
      {"d h3; k=a *2", "OK; OK 3/10 minute 20s"},
      {"d h3; k=a *0", "OK; OK 3/10 minute 20s"},  // 0 hits
      {"d; k=a *3", "OK; OK 0/10 minute 20s"},
      {"d; k=a *0", "OK; OK 0/10 minute 20s"},  // full, but not over
      {"d; k=a", "OVER; OVER 0/10 minute 20s"},
      {"d; k=a *0", "OVER; OVER 0/10 minute 20s"},
      // Hits over the limit are counted.
      {"d; k=b *11", "OVER; OVER 0/10 minute 20s"},
      {"d; k=b", "OVER; OVER 0/10 minute 20s"},
      {"d; k=b -2", "OK; OK 0/10 minute 20s"},
      {"d; k=b *0", "OK; OK 0/10 minute 20s"},
      {"d; k=b -4", "OK; OK 4/10 minute 20s"},
      {"d; k=b *4", "OK; OK 0/10 minute 20s"},
      {"d; k=b -1000", "OK; OK 10/10 minute 20s"},  // the count does not fall below 0
      {"d; k=b", "OK; OK 9/10 minute 20s"},
      {"d; k=new -5", "OK; OK 10/10 minute 20s"},
      {"d; k=new *10", "OK; OK 0/10 minute 20s"},
      // The descriptors of a request are decided separately, in order.
      {"d; k=c *10; k=c; k=e",
       "OVER; OK 0/10 minute 20s; OVER 0/10 minute 20s; OK 9/10 minute 20s"},
      {"d; k=f *8; k=f -3; k=f *5",
       "OK; OK 2/10 minute 20s; OK 5/10 minute 20s; OK 0/10 minute 20s"},
      {"d; zero", "OVER; OVER 0/0 minute 20s"},
      {"d; zero=1 *0", "OK; OK 0/0 minute 20s"},
      {"d; zero=2 -1", "OK; OK 0/0 minute 20s"},
      {"d; free *0", "OK; OK inf"},
      {"d; free -7", "OK; OK inf"},
      {"d h4294967295; max", "OK; OK 0/4294967295 minute 20s"},
      {"d; max", "OVER; OVER 0/4294967295 minute 20s"},
      // A counter counts at most 2^52 hits.
      {"d; k=g *4503599627370496", "OVER; OVER 0/10 minute 20s"},
      {"d; k=g *9223372036854775807", "OVER; OVER 0/10 minute 20s"},
      {"d; k=g", "OVER; OVER 0/10 minute 20s"},
      {"d; k=g -9223372036854775807", "OK; OK 10/10 minute 20s"},
      {"d; k=h *9223372036854775808",
       "3 descriptors[0].hits_addend: 9223372036854775808 is too large; allowed are 0 to "
       "9223372036854775807"},
      {"d; k=h -18446744073709551615",
       "3 descriptors[0].hits_addend: 18446744073709551615 is too large; allowed are 0 to "
       "9223372036854775807"},
      {"d; k=h *0", "OK; OK 10/10 minute 20s"},
      {"+20", ""},
      {"d; k=a", "OK; OK 9/10 minute 60s"},
      {"d; k=g", "OK; OK 9/10 minute 60s"},
  });
}

TEST_P(RlsTest, SettingCountDeniedIsOff_DeniedHitsAreNotCounted) {
  Serve(kHitRules, {.count_denied = false});
  ExpectAnswers({
      {"d; k=a *8", "OK; OK 2/10 minute 20s"},
      {"d; k=a *3", "OVER; OVER 0/10 minute 20s"},
      {"d; k=a *2", "OK; OK 0/10 minute 20s"},
      {"d; k=a", "OVER; OVER 0/10 minute 20s"},
      {"d; k=a *0", "OK; OK 0/10 minute 20s"},
      {"d; k=a -1", "OK; OK 1/10 minute 20s"},
      {"d; k=b; k=a *2", "OVER; OK 10/10 minute 20s; OVER 0/10 minute 20s"},
      {"d; k=b; k=a *2", "OVER; OK 10/10 minute 20s; OVER 0/10 minute 20s"},  // k=b was not charged
      {"d; k=b *0", "OK; OK 10/10 minute 20s"},
  });
}

TEST_P(RlsTest, ShadowMode_CountsButDoesNotDeny) {
  Serve(R"(
domain: d
descriptors:
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
)");
  ExpectAnswers({
      {"d; s", "OK; OK 1/2 minute 20s"},
      {"d; s *2", "OK; OK 0/2 minute 20s"},  // over, and counted
      {"d; s -2", "OK; OK 1/2 minute 20s"},
      {"d; s *9; k", "OK; OK 0/2 minute 20s; OK 0/1 minute 20s"},
      {"d; s; k", "OVER; OK 0/2 minute 20s; OVER 0/1 minute 20s"},
  });
  Serve(kHitRules, {.shadow_mode = true});
  ExpectAnswers({
      {"d; k=s *11", "OK; OVER 0/10 minute 20s"},  // the setting changes only the overall code
      {"d; k=s; zero=9", "OK; OVER 0/10 minute 20s; OVER 0/0 minute 20s"},
  });
}

TEST_P(RlsTest, QuotaMode_DeniesOnlyIfAllQuotasAreOver) {
  Serve(R"(
domain: d
descriptors:
  - {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
)");
  ExpectAnswers({
      {"d; q=1", "OK; OK 0/1 minute 20s"},
      {"d; q=1", "OVER; OVER 0/1 minute 20s"},
      {"d; q=1; q=2", "OK; OVER 0/1 minute 20s; OK 0/1 minute 20s"},
      {"d; q=1; q=2", "OVER; OVER 0/1 minute 20s; OVER 0/1 minute 20s"},
      {"d; q=1; k=1", "OVER; OVER 0/1 minute 20s; OK 0/1 minute 20s"},
      {"d; q=3; k=1", "OVER; OK 0/1 minute 20s; OVER 0/1 minute 20s"},
      {"d; q=1; other", "OVER; OVER 0/1 minute 20s; OK"},
  });
  Serve(kHitRules, {.quota_mode = true});
  ExpectAnswers({
      {"d; k=q *11; k=r", "OK; OVER 0/10 minute 20s; OK 9/10 minute 20s"},
      {"d; k=q", "OVER; OVER 0/10 minute 20s"},
  });
}

TEST_P(RlsTest, ReplacedLimit_IsNotCounted) {
  Serve(R"(
domain: d
descriptors:
  - key: plan
    value: gold
    rate_limit: {unit: minute, requests_per_unit: 9, name: gold, replaces: [{name: user}, {name: ip}]}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1, name: user}}
  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 1, name: ip}}
  - {key: site, rate_limit: {unit: minute, requests_per_unit: 5, name: site}}
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 5, name: a, replaces: [{name: b}]}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 5, name: b, replaces: [{name: a}]}}
  - {key: vip, rate_limit: {unlimited: true, replaces: [{name: user}]}}
)");
  ExpectAnswers({
      {"d; user=1; ip=1; site",
       "OK; OK 0/1 minute 20s user; OK 0/1 minute 20s ip; OK 4/5 minute "
       "20s site"},
      {"d; user=1; plan=gold; ip=1; site",
       "OK; OK; OK 8/9 minute 20s gold; OK; OK 3/5 minute 20s "
       "site"},
      {"d; user=1; plan=tin", "OVER; OVER 0/1 minute 20s user; OK"},
      {"d; user=2; plan=gold", "OK; OK; OK 7/9 minute 20s gold"},
      {"d; user=2", "OK; OK 0/1 minute 20s user"},  // the replaced limit was not counted
      {"d; a; b", "OK; OK; OK"},                    // each replaces the other
      {"d; vip; user=1", "OK; OK inf; OK"},
      {"d; user=3 !7/minute; plan=gold", "OK; OK 6/7 minute 20s; OK 6/9 minute 20s gold"},
  });
}

TEST_P(RlsTest, ShareThreshold_ValuesOfAPatternShareACounter) {
  Serve(R"(
domain: d
descriptors:
  - {key: path, value: /shared/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: path, value: /own/*, rate_limit: {unit: hour, requests_per_unit: 3}}
  - key: tenant
    value: t*
    share_threshold: true
    descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 3}}]
)");
  ExpectAnswers({
      {"d; path=/shared/a", "OK; OK 2/3 hour 800s"},
      {"d; path=/shared/b", "OK; OK 1/3 hour 800s"},
      {"d; path=/shared/", "OK; OK 0/3 hour 800s"},
      {"d; path=/shared/c", "OVER; OVER 0/3 hour 800s"},
      {"d; path=/own/a", "OK; OK 2/3 hour 800s"},
      {"d; path=/own/b", "OK; OK 2/3 hour 800s"},
      {"d; tenant=t1,user=x", "OK; OK 2/3 hour 800s"},
      {"d; tenant=t2,user=x", "OK; OK 1/3 hour 800s"},
      {"d; tenant=t2,user=y", "OK; OK 2/3 hour 800s"},
      {"d; tenant=u,user=x", "OK; OK"},
  });
}

TEST_P(RlsTest, LimitInTheRequest_ReplacesTheLimitOfTheRule) {
  Serve(kHitRules);
  ExpectAnswers({
      // If a limit in the request has the unit of the rule, it shares the counter of the rule.
      {"d; k=a *4", "OK; OK 6/10 minute 20s"},
      {"d; k=a !6/minute", "OK; OK 1/6 minute 20s"},
      {"d; k=a !6/2", "OK; OK 0/6 minute 20s"},
      {"d; k=a !6/minute", "OVER; OVER 0/6 minute 20s"},
      {"d; k=a", "OK; OK 2/10 minute 20s"},
      {"d; k=a !20/minute *10", "OK; OK 2/20 minute 20s"},
      {"d; k=a !6/hour", "OK; OK 5/6 hour 800s"},
      // No rule matches x and y.
      {"d; x=1,y=2 !2/day", "OK; OK 1/2 day 36800s"},
      {"d; x=1,y=2 !2/day *0", "OK; OK 1/2 day 36800s"},
      {"d; y=2,x=1 !2/day", "OK; OK 1/2 day 36800s"},
      {"d; x=1,y=2 !2/week", "OK; OK 1/2 week 468800s"},
      {"d; free !1/minute", "OK; OK 0/1 minute 20s"},
      {"d; free !1/minute", "OVER; OVER 0/1 minute 20s"},
      {"d; k=o !0/minute", "OVER; OVER 0/0 minute 20s"},
      {"d;  !5/minute", "OK; OK 4/5 minute 20s"},  // no entries
      {"other; k=a !6/minute", "OK; OK"},
      {"d; k=a !6/0", "3 descriptors[0].limit.unit: 0 is not known; allowed are 1 to 7"},
      {"d; k; k=a !6/8", "3 descriptors[1].limit.unit: 8 is not known; allowed are 1 to 7"},
  });
}

TEST_P(RlsTest, SluicesOwnAlgorithms_DecideDescriptors) {
  Serve(R"(
domain: d
descriptors:
  - key: bucket
    rate_limit: {limits: [{algorithm: token_bucket, rate: 1/s, burst: 3}]}
  - key: two
    rate_limit:
      name: both
      limits:
        - {algorithm: sliding_log, limit: 2, window: 10s}
        - {algorithm: fixed_window, limit: 3, window: 1h, align: clock}
  - key: smooth
    rate_limit: {limits: [{algorithm: leaky_bucket, rate: 1/s, queue: 5}]}
)");
  ExpectAnswers({
      {"d; bucket *3", "OK; OK 0/3 unknown 3s"},
      {"d; bucket", "OVER; OVER 0/3 unknown 3s"},
      {"+1", ""},
      {"d; bucket", "OK; OK 0/3 unknown 3s"},  // denied hits are not counted
      {"d; bucket -1", "OK; OK 1/3 unknown 2s"},
      {"d; two", "OK; OK 1/2 unknown 10s both"},
      {"d; two", "OK; OK 0/2 unknown 10s both"},
      {"d; two", "OVER; OVER 0/2 unknown 10s both"},
      {"+10", ""},
      {"d; two", "OK; OK 0/3 unknown 789s both"},
      {"d; two", "OVER; OVER 0/3 unknown 789s both"},
      {"d; smooth", "OK; OK 5/6 unknown 1s"},
      {"d; smooth", "OVER; OVER 0/6 unknown 1s"},  // Envoy cannot wait
      {"d; smooth -1", "OK; OK"},                  // a leaky bucket with delays has no refunds
  });
}

// The hits of a descriptor are the cost of its check, for example a number of tokens.
TEST_P(RlsTest, SluicesOwnAlgorithms_CountHitsOrRequests) {
  Serve(R"(
domain: d
all_or_nothing: true
descriptors:
  - key: model
    rate_limit:
      limits:
        - {algorithm: fixed_window, limit: 2, window: 1h, align: clock, counts: requests}
        - {algorithm: fixed_window, limit: 900, window: 1h, align: clock, counts: {cost: 3}}
  - {key: b, rate_limit: {unit: hour, requests_per_unit: 1}}
)");
  ExpectAnswers({
      {"d; model *301", "OVER; OVER 0/900 unknown 800s"},
      {"d; model *100; b", "OK; OK 1/2 unknown 800s; OK 0/1 hour 800s"},
      {"d; model *100; b", "OVER; OK 1/2 unknown 800s; OVER 0/1 hour 800s"},
      {"d; model *100", "OK; OK 0/2 unknown 800s"},  // the denied request was refunded
      {"d; model", "OVER; OVER 0/2 unknown 800s"},
      {"d; model *0", "OK; OK 0/2 unknown 800s"},
  });
}

TEST_P(RlsTest, AllOrNothing_DeniedRequestIsNotCounted) {
  Serve(R"(
domain: d
all_or_nothing: true
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
)");
  ExpectAnswers({
      {"d; a; b; s", "OK; OK 4/5 minute 20s; OK 0/1 minute 20s; OK 4/5 minute 20s"},
      {"d; a *2; b; s *3", "OVER; OK 4/5 minute 20s; OVER 0/1 minute 20s; OK 4/5 minute 20s"},
      {"d; a *0; b *0; s *0", "OK; OK 4/5 minute 20s; OK 0/1 minute 20s; OK 4/5 minute 20s"},
      {"d; a", "OK; OK 3/5 minute 20s"},
  });
}

}  // namespace
}  // namespace sluice::envoy
