// What `sluice top` shows: one screen, or a few lines for a log. In names, keys and errors,
// characters other than printable ASCII are escaped, because these texts come from others, and a
// terminal obeys control characters.
//
// Plain values.
#pragma once

#include <cstddef>
#include <string>

#include "console/fleet_state.h"

namespace sluice::tools {

struct TopView {
  enum class Order { kDenied, kChecks, kName };
  enum class Keys { kDenied, kUsed };

  Order order = Order::kDenied;
  Keys keys = Keys::kDenied;
  std::string filter;    // shows only rules and keys that contain this text
  bool typing = false;   // typed keys go to the filter
  bool stopped = false;  // paused
  bool ended = false;

  // Handles one byte from the terminal.
  void Press(char key);
};

// At most `rows` lines of at most `columns` characters, separated by newlines.
std::string TopScreen(const FleetState& fleet, const TopView& view, std::size_t rows,
                      std::size_t columns);

// One line for the totals, one for each server that does not answer, one for each rule, and one for
// each of the three keys most denied. The filter applies to rules only.
std::string TopLines(const FleetState& fleet, const TopView& view, const std::string& time);

}  // namespace sluice::tools
