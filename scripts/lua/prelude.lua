-- What all algorithms share; comes first in the composed script. The twin of
-- src/core/algorithm/algorithm.h.

local floor, ceil, min, max, rep = math.floor, math.ceil, math.min, math.max, string.rep
local call = redis.call

-- Whether a state that no grant has changed must be stored all the same (else nil); see enum Keep.
local KEEP_UNLESS_PEEK, KEEP_ALWAYS = 1, 2

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
  return min(n, floor((most - counted) / cost))
end

-- How far below zero the level of a bucket may go.
local function max_debt(rate, capacity)
  return min(MAX_PRODUCT, 10 * max(capacity, rate * 60000000))
end

-- What comes in, at `rate` per µs, in a time; at most `most`.
local function inflow(time, rate, most)
  return time >= ceil(most / rate) and most or time * rate
end
