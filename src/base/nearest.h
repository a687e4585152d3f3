// The known word a mistyped one was probably meant to be.
#pragma once

#include <span>
#include <string_view>

namespace sluice {

// The word of `known` with the fewest edits (letter added, dropped, replaced, two swapped) from
// `text`; empty if none is near enough to be worth a guess.
std::string_view NearestOf(std::string_view text, std::span<const std::string_view> known);

}  // namespace sluice
