#include "config/setting_values.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"
#include "config/scalar_parser.h"
#include "core/format.h"

namespace sluice {
namespace {

[[nodiscard]] Error NotAllowed(std::string_view found, std::string_view allowed) {
  return InvalidArgument(fmt::format("found \"{}\"; allowed is {}", found, allowed));
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size(); begin += parts.back().size() + 1) {
    parts.push_back(text.substr(begin, text.find(',', begin) - begin));
  }
  return parts;
}

// Sets `place` to a text for which `check` succeeds.
template <typename Check>
Setter SetChecked(std::string& place, Check check) {
  return [&place, check](std::string_view text) -> Result<void> {
    if (const auto checked = check(text); !checked) return checked.error();
    place = text;
    return {};
  };
}

// The beginning of a list of allowed values, such as "auto, or ". Empty if `word` is empty.
std::string Or(std::string_view word) { return word.empty() ? "" : fmt::format("{}, or ", word); }

}  // namespace

Setter SetText(std::string& place) {
  return SetChecked(place, [](std::string_view text) -> Result<void> {
    if (text.empty()) return NotAllowed(text, "a text that is not empty");
    return {};
  });
}

Setter SetFile(std::string& place) {
  return SetChecked(place, [](std::string_view text) { return ReadFile(std::string(text)); });
}

Setter SetSecretFile(std::string& place) {
  return SetChecked(place, [](std::string_view text) { return ReadSecretFile(std::string(text)); });
}

Setter SetSecret(std::string& place) { return SetChecked(place, ValidateSecret); }

Setter SetInsteadOf(std::string& other, Setter set) {
  return [&other, set = std::move(set)](std::string_view text) {
    auto done = set(text);
    if (done) other.clear();
    return done;
  };
}

Setter SetCount(std::size_t& place, std::size_t least, std::size_t most, std::string_view zero) {
  return [=, &place](std::string_view text) -> Result<void> {
    const bool is_zero = !zero.empty() && text == zero;
    const auto count = is_zero ? 0 : ParseNumber<std::size_t>(text);
    if (!is_zero && (!count || *count < least || *count > most)) {
      return NotAllowed(text, fmt::format("{}a whole number from {} to {}", Or(zero), least, most));
    }
    place = *count;
    return {};
  };
}

Setter SetBytes(std::size_t& place) {
  return [&place](std::string_view text) -> Result<void> {
    constexpr std::size_t kLeast = std::size_t{1} << 20;
    constexpr std::size_t kMost = std::size_t{1} << 40;
    std::size_t bytes = 1;
    for (const std::string_view unit : {"KiB", "MiB", "GiB"}) {
      bytes <<= 10;
      if (!text.ends_with(unit)) continue;
      const auto count = ParseNumber<std::size_t>(text.substr(0, text.size() - unit.size()));
      if (!count || *count > kMost / bytes || *count * bytes < kLeast) break;
      place = *count * bytes;
      return {};
    }
    return NotAllowed(text, "a size from 1MiB to 1024GiB, such as 256MiB");
  };
}

Setter SetLength(Duration& place, Duration least, Duration most, std::string_view zero) {
  return [=, &place](std::string_view text) -> Result<void> {
    const bool is_zero = !zero.empty() && text == zero;
    const auto length = is_zero ? Duration::zero() : ParseDuration(text);
    if (!is_zero && (!length || *length < least || *length > most)) {
      return NotAllowed(text, fmt::format("{}a duration from {} to {}", Or(zero),
                                          FormatDuration(least), FormatDuration(most)));
    }
    place = *length;
    return {};
  };
}

Setter SetRatio(double& place) {
  return [&place](std::string_view text) -> Result<void> {
    const auto ratio = ParseNumber<double>(text);
    if (!ratio || !(*ratio > 0 && *ratio <= 1)) {
      return NotAllowed(text, "a number above 0, up to 1");
    }
    place = *ratio;
    return {};
  };
}

Setter SetShareOrAuto(std::optional<double>& place) {
  return [&place](std::string_view text) -> Result<void> {
    const auto share = ParseNumber<double>(text);
    if (text != "auto" && !(share && *share >= 0.001 && *share <= 1)) {
      return NotAllowed(text, "auto, or a number from 0.001 to 1");
    }
    place = share;
    return {};
  };
}

Setter SetListen(Address& place) {
  return [&place](std::string_view text) -> Result<void> {
    const auto address = Address::Parse(text);
    if (!address) return address.error();
    place = *address;
    return {};
  };
}

Setter SetListenOr(std::string& place, std::vector<std::string_view> words) {
  return [&place, words = std::move(words)](std::string_view text) -> Result<void> {
    const bool is_word = std::ranges::find(words, text) != words.end();
    if (const auto address = Address::Parse(text); !is_word && !address) {
      return InvalidArgument(
          fmt::format("{}, or {}", address.error().message, fmt::join(words, ", or ")));
    }
    place = text;
    return {};
  };
}

Setter SetPermissions(std::optional<mode_t>& place) {
  return [&place](std::string_view text) -> Result<void> {
    const auto mode = ParseNumber<unsigned>(text, 8);
    if (!mode || text.size() < 3 || *mode > 0777) {
      return NotAllowed(text, "permissions in octal, from 0000 to 0777, such as 0660");
    }
    place = *mode;
    return {};
  };
}

Setter SetIdentities(std::vector<std::string>& place) {
  return [&place](std::string_view text) -> Result<void> {
    std::vector<std::string> identities;
    for (const std::string_view part : SplitAtCommas(text)) {
      if (part.empty()) return NotAllowed(text, "names separated by commas");
      auto identity = ParseIdentity(part);
      if (!identity) return identity.error();
      identities.push_back(std::move(*identity));
    }
    place = std::move(identities);
    return {};
  };
}

Setter SetHostPort(std::string& place) {
  return [&place](std::string_view text) -> Result<void> {
    const auto address = Address::Parse(text);
    if (!address || address->is_unix()) return NotAllowed(text, "host:port");
    place = text;
    return {};
  };
}

Setter SetPairs(std::vector<std::pair<std::string, std::string>>& place, char between) {
  return [&place, between](std::string_view text) -> Result<void> {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const std::string_view part : SplitAtCommas(text)) {
      const std::size_t at = part.find(between);
      std::string name = Lowercase(part.substr(0, at));
      if (at == part.npos || name.empty() ||
          name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") != name.npos) {
        return InvalidArgument(fmt::format(  // without the text: a value may be secret
            "found a part that is not name{0}value; allowed is name{0}value, separated by commas",
            between));
      }
      pairs.emplace_back(std::move(name), part.substr(at + 1));
    }
    place = std::move(pairs);
    return {};
  };
}

Setter SetHeaderNames(std::array<std::string*, 3> places) {
  return [places](std::string_view text) -> Result<void> {
    const auto is_name = [](std::string_view name) {
      return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
        return std::isalnum(c) || c == '-' || c == '_';
      });
    };
    const auto names = SplitAtCommas(text);
    if (names.size() != places.size() || !std::ranges::all_of(names, is_name)) {
      return NotAllowed(text, "three names of letters, digits, - and _, separated by commas");
    }
    for (std::size_t i = 0; i < places.size(); ++i) *places[i] = names[i];
    return {};
  };
}

Setter SetWord(std::string& place, std::vector<std::string_view> words) {
  return [&place, words = std::move(words)](std::string_view text) -> Result<void> {
    if (std::ranges::find(words, text) == words.end()) {
      return NotAllowed(
          text,
          fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back()));
    }
    place = text;
    return {};
  };
}

}  // namespace sluice
