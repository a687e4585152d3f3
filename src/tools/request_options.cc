#include "tools/request_options.h"

#include <fmt/format.h>

#include "base/text.h"

namespace sluice::tools {
namespace {

void CheckUtf8(const char* what, const std::string& text) {
  if (!IsValidUtf8(text)) {
    throw CLI::ValidationError(fmt::format("{} {:?}: not valid UTF-8", what, text));
  }
}

void CheckAttributes(const std::vector<std::string>& attributes) {
  std::map<std::string, std::string> seen;
  for (const std::string& attribute : attributes) {
    CheckUtf8("attribute", attribute);
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

Result<std::pair<std::string, std::uint64_t>> ParseAmount(const std::string& text) {
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgument(fmt::format("\"{}\": expected NAME=NUMBER, such as tokens=500", text));
  }
  const auto amount = ParseNumber<std::uint64_t>(std::string_view(text).substr(equals + 1));
  if (amount && *amount <= std::uint64_t{1} << 53) {
    return std::pair(text.substr(0, equals), *amount);
  }
  return InvalidArgument(fmt::format("\"{}\": expected a whole number from 0 to 2^53", text));
}

void RequestOptions::AddTo(CLI::App& app) {
  app.add_option("DOMAIN", domain, "Domain of the rules, such as shop")->required();
  // With extra arguments allowed, CLI11 would split an attribute like "[a=1,b=2]". Without, it
  // accepts further words until their number is the minimum, which TakeAll does not enforce.
  constexpr int kMany = CLI::detail::expected_max_vector_size;
  app.add_option("KEY=VALUE", attributes,
                 "Attributes of the request, such as endpoint=/boot/pay user=42")
      ->take_all()
      ->expected(kMany, kMany)
      ->allow_extra_args(false);
  app.callback([this] {
    CheckUtf8("domain", domain);
    CheckAttributes(attributes);
  });
}

void AmountOptions::AddTo(CLI::App& app) {
  const auto add = [this](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto amount = ParseAmount(text);
      if (!amount) throw CLI::ValidationError("--amount " + amount.error().message);
      if (!amounts.insert(*amount).second) {
        throw CLI::ValidationError(fmt::format("--amount \"{}\": this name is given twice", text));
      }
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--amount", add,
         "Amount that limits may count besides the cost, such as tokens=500; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME=NUMBER");
}

}  // namespace sluice::tools
