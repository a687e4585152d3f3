// The kinds of values that settings have. Each function returns a function that sets one `place`
// from the text of a flag, a variable or the file. If the text is not allowed, the error says what
// was found and what is allowed. The place must outlive the result.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"

namespace sluice {

using Setter = std::function<Result<void>(std::string_view text)>;

Setter SetText(std::string& place);

// The path of a file that must exist, so that a wrong name is reported at startup.
Setter SetFile(std::string& place);

// The path of a file with a secret, which is reloaded when it changes.
Setter SetSecretFile(std::string& place);

// The secret itself.
Setter SetSecret(std::string& place);

// Like `set`, but also clears `other`, the place of another setting. If both settings are given,
// the later one applies.
Setter SetInsteadOf(std::string& other, Setter set);

// A number from `least` to `most`. `zero`: a word for 0; empty if 0 has no word.
Setter SetCount(std::size_t& place, std::size_t least, std::size_t most,
                std::string_view zero = "");

// A size from 1 MiB to 1 TiB, with a unit: KiB, MiB or GiB.
Setter SetBytes(std::size_t& place);

// A duration from `least` to `most`. `zero`: a word for 0; empty if 0 has no word.
Setter SetLength(Duration& place, Duration least, Duration most, std::string_view zero = "");

// A number above 0, up to 1.
Setter SetRatio(double& place);

// A number from 0.001 to 1, or "auto", which sets nullopt.
Setter SetShareOrAuto(std::optional<double>& place);

Setter SetListen(Address& place);

// An address, or one of `words`.
Setter SetListenOr(std::string& place, std::vector<std::string_view> words);

// host:port, as text.
Setter SetHostPort(std::string& place);

// Pairs of name, `between` and value, separated by commas. A value may contain `between`. Names
// consist of letters, digits, "-", "_" and ".". They are stored in lower case.
Setter SetPairs(std::vector<std::pair<std::string, std::string>>& place, char between);

// Permissions of a file, in octal.
Setter SetPermissions(std::optional<mode_t>& place);

// Names in client certificates with their types, separated by commas.
Setter SetIdentities(std::vector<std::string>& place);

// Names of headers, one for each place, separated by commas.
Setter SetHeaderNames(std::array<std::string*, 3> places);

// One of at least two words.
Setter SetWord(std::string& place, std::vector<std::string_view> words);

// One of two words.
template <typename T>
Setter SetEither(T& place, std::pair<std::string_view, T> first,
                 std::pair<std::string_view, T> second) {
  return [&place, first, second](std::string_view text) -> Result<void> {
    std::string word;
    const auto set = SetWord(word, {first.first, second.first})(text);
    if (set) place = word == first.first ? first.second : second.second;
    return set;
  };
}

// true or false.
inline Setter SetFlag(bool& place) {
  return SetEither<bool>(place, {"true", true}, {"false", false});
}

}  // namespace sluice
