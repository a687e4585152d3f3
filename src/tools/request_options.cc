#include "tools/request_options.h"

#include <map>

#include <fmt/format.h>

namespace sluice::tools {
namespace {

void CheckAttributes(const std::vector<std::string>& attributes) {
  std::map<std::string, std::string> seen;
  for (const std::string& attribute : attributes) {
    const auto equals = attribute.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw CLI::ValidationError(
          fmt::format("attribute \"{}\": expected KEY=VALUE, such as endpoint=/boot/pay or user=42",
                      attribute));
    }
    const auto [earlier, is_new] = seen.emplace(attribute.substr(0, equals), attribute);
    if (!is_new) {
      throw CLI::ValidationError(
          fmt::format("attribute \"{}\": already given as \"{}\"", attribute, earlier->second));
    }
  }
}

}  // namespace

void RequestOptions::AddTo(CLI::App& app) {
  app.add_option("DOMAIN", domain, "Domain of the rules, such as shop")->required();
  app.add_option("KEY=VALUE", attributes,
                 "Attributes of the request, such as endpoint=/boot/pay user=42");
  app.callback([this] { CheckAttributes(attributes); });
}

}  // namespace sluice::tools
