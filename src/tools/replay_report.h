// What `sluice replay` prints.
#pragma once

#include <string>

#include "replay/replay.h"
#include "replay/suggestion.h"

namespace sluice::tools {

std::string ReplayText(const replay::ReplayResult& result);
std::string ReplayJson(const replay::ReplayResult& result);

// A rule file. Comments say what was found for the limits of each rule.
std::string SuggestionText(const replay::Suggestion& suggestion);
std::string SuggestionJson(const replay::Suggestion& suggestion);

}  // namespace sluice::tools
