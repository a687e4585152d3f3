// Compares the service with a simple model of the protocol, on random trees of descriptors and
// random requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "envoy/rls/rate_limit_service.h"
#include "envoy/rules/compiler.h"
#include "envoy/rules/rules_loader.h"
#include "store/memory/memory_store.h"
#include "tests/envoy/rls_text.h"
#include "tests/support/fake_call.h"
#include "tests/support/manual_loop.h"

namespace sluice::envoy {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// One descriptor of a rule file.
struct Node {
  std::string key;
  std::string value;  // empty: any
  std::string unit;   // empty: no limit
  std::uint32_t requests = 0;
  bool unlimited = false;
  bool shadow = false;
  bool quota = false;
  bool shared = false;
  std::string name;
  std::string replaces;
  std::vector<Node> children;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int Below(int end) { return static_cast<int>(engine_() % static_cast<unsigned>(end)); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <typename T>
  T Pick(std::vector<T> from) {
    return from[static_cast<std::size_t>(Below(static_cast<int>(from.size())))];
  }

 private:
  std::mt19937 engine_;
};

std::vector<Node> RandomNodes(Random& random, int depth) {
  std::vector<Node> nodes;
  for (int i = random.Below(5) + (depth == 0); i > 0; --i) {
    Node node{.key = random.Pick<std::string>({"a", "b", "c"}),
              .value = random.Pick<std::string>({"", "", "1", "2", "12", "1*", "*2", "*", "1*2"})};
    const bool known = std::any_of(nodes.begin(), nodes.end(), [&](const Node& it) {
      return it.key == node.key && it.value == node.value;
    });
    if (known) continue;
    if (!random.OneIn(4)) {
      node.unlimited = random.OneIn(8);
      node.unit = random.Pick<std::string>({"second", "minute", "hour", "week"});
      node.requests = static_cast<std::uint32_t>(random.Below(6));
      node.name = random.Pick<std::string>({"", "", "x", "y"});
      if (random.OneIn(5)) node.replaces = random.Pick<std::string>({"x", "y", "z"});
      if (node.replaces == node.name) node.replaces = "";
    }
    node.shadow = random.OneIn(6);
    node.quota = random.OneIn(6);
    node.shared = node.value.find('*') != std::string::npos && random.OneIn(2);
    if (depth < 2 && random.OneIn(2)) node.children = RandomNodes(random, depth + 1);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string ToYaml(const std::vector<Node>& nodes, const std::string& indent) {
  std::string text;
  for (const Node& it : nodes) {
    text += fmt::format("{}- key: {}\n", indent, it.key);
    if (!it.value.empty()) text += fmt::format("{}  value: \"{}\"\n", indent, it.value);
    if (it.shadow) text += indent + "  shadow_mode: true\n";
    if (it.quota) text += indent + "  quota_mode: true\n";
    if (it.shared) text += indent + "  share_threshold: true\n";
    if (!it.unit.empty()) {
      text += it.unlimited ? indent + "  rate_limit: {unlimited: true"
                           : fmt::format("{}  rate_limit: {{unit: {}, requests_per_unit: {}",
                                         indent, it.unit, it.requests);
      if (!it.name.empty()) text += fmt::format(", name: {}", it.name);
      if (!it.replaces.empty()) text += fmt::format(", replaces: [{{name: {}}}]", it.replaces);
      text += "}\n";
    }
    if (!it.children.empty()) {
      text += indent + "  descriptors:\n" + ToYaml(it.children, indent + "    ");
    }
  }
  return text;
}

// '*' matches any number of characters.
bool Matches(const std::string& pattern, const std::string& text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return Matches(pattern.substr(1), text) || (!text.empty() && Matches(pattern, text.substr(1)));
  }
  return !text.empty() && pattern[0] == text[0] && Matches(pattern.substr(1), text.substr(1));
}

class Model {
 public:
  explicit Model(std::vector<Node> nodes) : nodes_(std::move(nodes)) {}

  std::string Ask(const pb::RateLimitRequest& request, std::int64_t now) {
    std::vector<const Node*> found;
    std::vector<Pairs> counted;
    std::vector<std::string> replaced;
    for (const auto& descriptor : request.descriptors()) {
      counted.emplace_back();
      found.push_back(descriptor.has_limit() ? nullptr : Find(descriptor, counted.back()));
      if (found.back() != nullptr) replaced.push_back(found.back()->replaces);
    }
    std::string statuses;
    int over = 0, quotas = 0, quotas_over = 0;
    for (int i = 0; i < request.descriptors_size(); ++i) {
      const auto& descriptor = request.descriptors(i);
      const Node* node = found[static_cast<std::size_t>(i)];
      const bool dropped = node != nullptr && !node->name.empty() &&
                           std::count(replaced.begin(), replaced.end(), node->name) > 0;
      // If a descriptor is replaced or has no limit, its quota_mode is ignored.
      const bool is_quota = node != nullptr && node->quota && !dropped;
      quotas += is_quota;
      if (dropped || (node == nullptr && !descriptor.has_limit())) {
        statuses += "; OK";
        continue;
      }
      if (node != nullptr && node->unlimited) {
        statuses += "; OK inf";
        continue;
      }
      Pairs& pairs = counted[static_cast<std::size_t>(i)];
      std::string unit = node != nullptr ? node->unit : "";
      std::uint64_t limit = node != nullptr ? node->requests : 0;
      if (descriptor.has_limit()) {
        limit = descriptor.limit().requests_per_unit();
        unit = kUnitNames[static_cast<std::size_t>(descriptor.limit().unit())];
        for (const auto& entry : descriptor.entries()) {
          pairs.emplace_back(entry.key(), entry.value());
        }
      }
      const std::int64_t length = Length(unit);
      std::uint64_t& count = counts_[{pairs, unit, now / length}];
      const std::uint64_t hits = Hits(request, descriptor);
      bool is_over = false;
      if (descriptor.is_negative_hits() && hits > 0) {
        count -= std::min(count, hits);
      } else {
        count += hits;
        is_over = count > limit;
      }
      const bool shadow = node != nullptr && node->shadow;
      const bool tells = is_over && !shadow;
      over += tells && !is_quota;
      quotas_over += tells && is_quota;
      statuses += fmt::format("; {} {}/{} {} {}s", tells ? "OVER" : "OK",
                              count > limit || is_over ? 0 : limit - count, limit, unit,
                              length - now % length);
      if (node != nullptr && !node->name.empty()) statuses += " " + node->name;
    }
    const bool denied = over > 0 || (quotas > 0 && quotas == quotas_over);
    return (denied ? "OVER" : "OK") + statuses;
  }

 private:
  using Descriptor = ::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;

  static std::int64_t Length(const std::string& unit) {
    return unit == "second" ? 1 : unit == "minute" ? 60 : unit == "hour" ? 3600 : 7 * 86400;
  }

  static std::uint64_t Hits(const pb::RateLimitRequest& request, const Descriptor& descriptor) {
    if (descriptor.has_hits_addend()) return descriptor.hits_addend().value();
    return request.hits_addend() == 0 ? 1 : request.hits_addend();
  }

  const Node* Find(const Descriptor& descriptor, Pairs& counted) const {
    const std::vector<Node>* level = &nodes_;
    const Node* node = nullptr;
    for (const auto& entry : descriptor.entries()) {
      node = nullptr;
      for (const Node& it : *level) {
        if (it.key == entry.key() && !it.value.empty() && it.value == entry.value()) node = &it;
      }
      for (const Node& it : *level) {
        const bool star = it.value.find('*') != std::string::npos;
        if (node == nullptr && it.key == entry.key() && star && Matches(it.value, entry.value())) {
          node = &it;
        }
      }
      for (const Node& it : *level) {
        if (node == nullptr && it.key == entry.key() && it.value.empty()) node = &it;
      }
      if (node == nullptr) return nullptr;
      counted.emplace_back(entry.key(), node->shared ? node->value : entry.value());
      level = &node->children;
    }
    return node != nullptr && !node->unit.empty() ? node : nullptr;
  }

  const std::vector<Node> nodes_;
  std::map<std::tuple<Pairs, std::string, std::int64_t>, std::uint64_t> counts_;
};

pb::RateLimitRequest RandomRequest(Random& random) {
  pb::RateLimitRequest request;
  request.set_domain("d");
  if (random.OneIn(3)) request.set_hits_addend(static_cast<std::uint32_t>(random.Below(4)));
  for (int i = 1 + random.Below(3); i > 0; --i) {
    auto& descriptor = *request.add_descriptors();
    for (int entries = random.Below(8) == 0 ? 0 : 1 + random.Below(3); entries > 0; --entries) {
      auto& entry = *descriptor.add_entries();
      entry.set_key(random.Pick<std::string>({"a", "b", "c"}));
      entry.set_value(random.Pick<std::string>({"", "1", "2", "12", "122", "3", "1*"}));
    }
    if (random.OneIn(3)) {
      descriptor.mutable_hits_addend()->set_value(static_cast<std::uint64_t>(random.Below(4)));
      descriptor.set_is_negative_hits(random.OneIn(3));
    }
    if (random.OneIn(8)) {
      descriptor.mutable_limit()->set_requests_per_unit(
          static_cast<std::uint32_t>(random.Below(5)));
      descriptor.mutable_limit()->set_unit(
          UnitNumber(random.Pick<std::string>({"second", "minute", "hour", "week"})));
    }
  }
  return request;
}

TEST(Model, TenThousandTrees_ServiceAnswersAsTheModelDoes) {
  constexpr int kTrees = 10'000;
  constexpr int kRequests = 12;
  test::ManualLoop loop;
  for (int seed = 0; seed < kTrees; ++seed) {
    Random random(static_cast<unsigned>(seed));
    const std::vector<Node> nodes = RandomNodes(random, 0);
    const std::string yaml = "domain: d\ndescriptors:\n" + ToYaml(nodes, "  ");
    RuleTexts texts;
    texts.files.push_back({"f.yaml", yaml});
    LoadedTrees loaded = ParseRules(std::move(texts), false);
    ASSERT_TRUE(loaded.ok()) << yaml << loaded.errors[0].ToString();
    CompiledRules compiled = Compile(std::move(loaded.trees));

    ManualClock clock{Time(std::chrono::seconds(1'728'049'600))};
    MetricsRegistry metrics;
    MemoryStore store(clock, {});
    Fallback fallback(clock);
    Limiter limiter({.store = store, .local = store, .fallback = fallback, .metrics = metrics}, {});
    limiter.SetRules(RuleIndex::Build(compiled.rules, {.guide = compiled.guide}).value());
    RateLimitService service(limiter, metrics, {});
    rpc::Methods methods;
    service.AddTo(methods);
    const auto handler = methods.front().unary(loop);
    Model model(nodes);
    for (int i = 0; i < kRequests; ++i) {
      if (random.OneIn(4)) clock.Advance(std::chrono::seconds(random.Pick<int>({1, 20, 61, 800})));
      const pb::RateLimitRequest request = RandomRequest(random);
      const std::string bytes = request.SerializeAsString();
      test::FakeCall call;
      handler->Attach(call);
      handler->Serve(call, bytes);
      pb::RateLimitResponse response;
      ASSERT_TRUE(call.status.ok() && response.ParseFromString(call.response));
      const auto now = std::chrono::floor<std::chrono::seconds>(clock.Now()).time_since_epoch();
      ASSERT_EQ(TextOf(response), model.Ask(request, now.count()))
          << "seed " << seed << "\n"
          << yaml << request.ShortDebugString();
    }
  }
}

}  // namespace
}  // namespace sluice::envoy
