-- What all algorithms share; comes first in the composed script. The twin of
-- src/core/algorithm/algorithm.h.

-- Whether a state that no grant has changed must be stored all the same; see enum Keep.
local KEEP_NO, KEEP_UNLESS_PEEK, KEEP_ALWAYS = 0, 1, 2

-- A counter ahead of the clock by more than this (µs) has met not skew but another clock.
local MAX_SKEW = 1000000

local function clock_was_replaced(last, now)
  return now < last - MAX_SKEW
end

-- No count an algorithm keeps may pass this.
local MAX_PRODUCT = 4503599627370496

-- How many of n checks of `cost` units, one after the other, find room within `most`.
local function grants_within(most, counted, cost, n)
  if counted > most then
    return 0
  elseif cost == 0 then
    return n
  end
  return math.min(n, math.floor((most - counted) / cost))
end

-- How far below zero the level of a bucket may go.
local function max_debt(rate, capacity)
  return math.min(MAX_PRODUCT, 10 * math.max(capacity, rate * 60000000))
end

-- What comes in, at `rate` per µs, while a check waits as long as it may; at most `most`.
local function advanced(max_wait, rate, most)
  if not max_wait or max_wait <= 0 then
    return 0
  end
  return max_wait >= math.ceil(most / rate) and most or max_wait * rate
end
