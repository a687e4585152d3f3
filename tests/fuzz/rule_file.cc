// A rule file is parsed without a crash. If its rules are accepted, they are indexed and matched
// without a crash. If not, each error has a text.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "config/rules_loader.h"
#include "match/rule_index.h"

namespace sluice {
namespace {

void Run(std::string_view input) {
  const std::vector<RuleFile> files{{.name = "fuzz.yaml", .text = std::string(input)}};
  const LoadedRules loaded = ParseRules({.files = files});
  if (!loaded.ok()) {
    for (const Diagnostic& error : loaded.errors) {
      if (error.ToString().empty()) std::abort();
    }
    return;
  }
  const auto index = RuleIndex::Build(loaded.rules, {});
  if (!index) return;
  const std::vector<Attribute> attributes{{.name = "endpoint", .value = "/boot/pay"},
                                          {.name = "user", .value = "42"},
                                          {.name = "client_ip", .value = "2001:db8::1"},
                                          {.name = "method", .value = "GET"}};
  MatchResult matched;
  for (const IndexedRule& rule : (*index)->rules()) {
    (*index)->Match(rule.domain, attributes, matched);
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  sluice::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
