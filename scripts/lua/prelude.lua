-- What all algorithms share; comes first in the composed script. The twin of
-- src/core/algorithm/algorithm.h.

-- Whether a state that no grant has changed must be stored all the same; see enum Keep.
local KEEP_NO, KEEP_UNLESS_PEEK, KEEP_ALWAYS = 0, 1, 2

-- A counter ahead of the clock by more than this (µs) has met not skew but another clock.
local MAX_SKEW = 1000000

local function clock_was_replaced(last, now)
  return now < last - MAX_SKEW
end
