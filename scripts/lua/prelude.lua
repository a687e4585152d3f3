-- What all parts of the composed script share; comes first in it. For the algorithms the twin of
-- src/core/algorithm/algorithm.h.

local floor, ceil, min, max, rep = math.floor, math.ceil, math.min, math.max, string.rep
local pack_numbers, unpack_numbers = struct.pack, struct.unpack
local call, try = redis.call, redis.pcall

-- CHARGE takes the cost even where it is denied; REFUND gives it back. RENEW and RELEASE concern the
-- check's lease, and RENEW happens only if all counters hold it. UNDO takes back what an earlier
-- check was granted.
local CONSUME, PEEK, CHARGE, REFUND, RENEW, RELEASE, UNDO = 1, 2, 3, 4, 5, 6, 7

-- Most algorithms keep a counter as a string: this number, when its key expires (seconds since the
-- epoch, modulo EXPIRY_MODULUS, in 3 bytes; 0: unknown), then its fields as little-endian doubles;
-- `fields` says how many, unless their number varies. In format 1, which is read but not written,
-- nothing said when the key expires. An algorithm that keeps a counter otherwise has a read of its
-- own, and either a write for the end of the run or takes, renews and releases at once.
--
-- In here a state is as many numbers as `fields` says, two or three (a, b, c below), or one table.
local FORMAT = 2
local HEADER = 4 -- bytes
local EXPIRY_MODULUS = 16777216

-- Whether a state that no grant has changed must be stored all the same (else nil); see enum Keep.
local KEEP_UNLESS_PEEK, KEEP_ALWAYS = 1, 2

-- A counter ahead of the clock by more than this (µs) has met not skew but another clock.
local MAX_SKEW = 1000000

-- No count an algorithm keeps may pass this.
local MAX_PRODUCT = 4503599627370496

-- Lua passes some 8,000 values at once, so what may be longer passes in pieces of so many.
local PIECE = 4000

local function unpack_doubles(bytes)
  local count = #bytes / 8
  if count <= PIECE then
    return { unpack_numbers('<' .. rep('d', count), bytes) }
  end
  local numbers = {}
  for first = 1, count, PIECE do
    local layout = '<' .. rep('d', min(PIECE, count - first + 1))
    local piece = { unpack_numbers(layout, bytes, 8 * first - 7) }
    for i = 1, #piece - 1 do -- the last is where unpacking stopped
      numbers[first + i - 1] = piece[i]
    end
  end
  return numbers
end

local function pack_doubles(numbers, count)
  local pieces = {}
  for first = 1, count, PIECE do
    local last = min(count, first + PIECE - 1)
    pieces[#pieces + 1] =
      pack_numbers('<' .. rep('d', last - first + 1), unpack(numbers, first, last))
  end
  return table.concat(pieces)
end

-- The strings stored under `names`, in their order; false for a key that is absent or no string.
local function read_strings(names)
  if #names <= PIECE then
    return call('MGET', unpack(names))
  end
  local strings = {}
  for first = 1, #names, PIECE do
    local piece = call('MGET', unpack(names, first, min(#names, first + PIECE - 1)))
    for i = 1, #piece do
      strings[first + i - 1] = piece[i]
    end
  end
  return strings
end

-- As read_strings, of the first `count` names, whatever slots they are of. Also whether all others are
-- new, and by index why a name cannot be read here, nil if all can.
local function read_one_by_one(names, count)
  local strings, others_are_new, elsewhere = {}, true, nil
  for i = 1, count do
    local value = try('GET', names[i])
    if type(value) == 'table' then
      local cause = value.err
      value = false
      if cause:sub(1, 9) == 'WRONGTYPE' then
        others_are_new = false
      else
        elsewhere = elsewhere or {}
        elsewhere[i] = cause
      end
    end
    strings[i] = value
  end
  return strings, others_are_new, elsewhere
end

-- The first text in `texts` by the indices that stand in `numbers` from `first` on; nil if none.
local function first_of(texts, numbers, first, count)
  for i = first, first + count - 1 do
    if texts[numbers[i]] then
      return texts[numbers[i]]
    end
  end
end

local function any_exists(names)
  for first = 1, #names, PIECE do
    if call('EXISTS', unpack(names, first, min(#names, first + PIECE - 1))) > 0 then
      return true
    end
  end
  return false
end

-- How many of n checks of `cost` units, one after the other, find room within `most`.
local function grants_within(most, counted, cost, n)
  if counted > most then
    return 0
  elseif cost == 0 then
    return n
  end
  local room = floor((most - counted) / cost)
  return n < room and n or room
end

-- How far below zero the level of a bucket may go.
local function max_debt(rate, capacity)
  return min(MAX_PRODUCT, 10 * max(capacity, rate * 60000000))
end

-- What comes in, at `rate` per µs, in a time; at most `most`.
local function inflow(time, rate, most)
  return time >= ceil(most / rate) and most or time * rate
end
