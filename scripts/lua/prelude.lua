-- Functions for the parts of the composed script that come after this file.

-- A Lua call can pass at most about 8,000 values, so longer lists are passed in pieces of this
-- size.
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
    for i = 1, #piece - 1 do -- the last one is unpack's next position
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

-- The strings stored under the first `count` names, in order; false if a key is absent or not a
-- string.
local function read_strings(names, count)
  if count <= PIECE then
    return call('MGET', unpack(names, 1, count))
  end
  local strings = {}
  for first = 1, count, PIECE do
    local piece = call('MGET', unpack(names, first, min(count, first + PIECE - 1)))
    for i = 1, #piece do
      strings[first + i - 1] = piece[i]
    end
  end
  return strings
end

-- Like read_strings, but the names may be in different slots. Also returns whether no key holds
-- another type, and, by index, why a name cannot be read on this node (nil if all can be read).
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

-- Returns the first texts[numbers[i]] that is not nil, for i from `first` to first + count - 1. If
-- all are nil, returns nil.
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

-- How many of n consecutive checks of `cost` units fit within `most`, after `counted` units.
local function grants_within(most, counted, cost, n) -- inlined
  if counted > most then
    return 0
  elseif cost == 0 then
    return n
  end
  local room = floor((most - counted) / cost)
  return n < room and n or room
end

-- How far the level of a token bucket may fall below zero, or that of a leaky bucket rise above its
-- capacity.
local function max_debt(rate, capacity) -- inlined
  return min(MAX_PRODUCT, 10 * max(capacity, rate * 60000000))
end

-- The inflow during `time` µs at `rate` per µs; at most `most`.
local function inflow(time, rate, most) -- inlined
  return time >= ceil(most / rate) and most or time * rate
end
