// Formats the answer of Explain as text: the decision, then each rule with its counters.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sluice/v1/admin.pb.h"

namespace sluice::tools {

// The amounts that a limit counts, with weights: "requests", "3 input_tokens + 15 output_tokens".
std::string CountsText(const std::map<std::string, std::uint64_t>& counts);

// `domain_hint`: as in DecisionContext. The text ends with a newline.
std::string ExplainText(const v1::CheckLimitRequest& request, const v1::ExplainResponse& answer,
                        const std::string& domain_hint);

}  // namespace sluice::tools
