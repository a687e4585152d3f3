-- Definitions shared by all parts of the composed script; it comes first. For the algorithms, the
-- twin of src/core/algorithm/algorithm.h.

local floor, ceil, min, max, rep = math.floor, math.ceil, math.min, math.max, string.rep
local pack_numbers, unpack_numbers = struct.pack, struct.unpack
local call, try = redis.call, redis.pcall

-- CHARGE takes the cost even if denied; REFUND gives it back. RENEW and RELEASE apply to the
-- check's lease; RENEW applies only if all counters hold it. UNDO reverts an earlier granted check.
local CONSUME, PEEK, CHARGE, REFUND, RENEW, RELEASE, UNDO = 1, 2, 3, 4, 5, 6, 7

-- Most algorithms keep a counter as a string: this number, when its key expires (seconds since the
-- epoch, modulo EXPIRY_MODULUS, in 3 bytes; 0: unknown), then its fields as little-endian doubles;
-- `fields` is their number, unless it varies. Format 1, which is read but not written,
-- has no expiry. An algorithm with another representation has its own read
-- function, and either a write at the end of the call or immediate writes.
--
-- In Lua a state is `fields` numbers, two or three (a, b, c below), or one table.
local FORMAT = 2
local HEADER = 4 -- bytes
local EXPIRY_MODULUS = 16777216

-- Whether a state that no grant has changed must still be stored (otherwise nil); see enum
-- WriteBack.
local KEEP_UNLESS_PEEK, KEEP_ALWAYS = 1, 2

-- If a counter is ahead of the clock by more than this (µs), the clock was replaced.
local MAX_SKEW = 1000000

-- The largest count of an algorithm.
local MAX_PRODUCT = 4503599627370496

-- Lua passes about 8,000 values at most, so longer lists are passed in pieces of this size.
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
    for i = 1, #piece - 1 do -- the last is unpack's next position
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

-- The strings stored under `names`, in order; false if a key is absent or not a string.
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

-- Like read_strings, for the first `count` names, in any slots. Also returns whether all others are
-- new, and, by index, why a name cannot be read here (nil if all can).
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

-- The first text in `texts` at the indices in `numbers` from `first` on; nil if none.
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

-- How many of n consecutive checks of `cost` units fit within `most`.
local function grants_within(most, counted, cost, n)
  if counted > most then
    return 0
  elseif cost == 0 then
    return n
  end
  local room = floor((most - counted) / cost)
  return n < room and n or room
end

-- How far the level of a bucket may fall below zero.
local function max_debt(rate, capacity)
  return min(MAX_PRODUCT, 10 * max(capacity, rate * 60000000))
end

-- The inflow during a time at `rate` per µs; at most `most`.
local function inflow(time, rate, most)
  return time >= ceil(most / rate) and most or time * rate
end
