-- Sliding window counter: at most `limit` units in every interval, counted by sub-windows.
-- The twin of src/core/algorithm/sliding_window.h, which documents each function.
--
-- Parameters: limit, window (µs), segments
-- State:      start of the newest sub-window (µs), time of the latest change (µs), then the units of
--             each sub-window, newest first; the last one is not 0. In Lua, all are in one table.
-- Cost:       one key of the driver's MGET; one SETRANGE or SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local function parse(algorithm, numbers, at) -- inlined
  local segments = numbers[at + 2]
  return {
    algorithm = algorithm, limit = numbers[at], segments = segments,
    length = ceil(numbers[at + 1] / segments),
  }
end

local function open(_, now) -- inlined
  return nil, { now, now }
end

local function counted(state) -- inlined
  local sum = 0
  for i = 3, #state do
    sum = sum + state[i]
  end
  return sum
end

local function trim_oldest(state) -- inlined
  for i = #state, 3, -1 do
    if state[i] ~= 0 then
      break
    end
    state[i] = nil
  end
end

-- The time at which a sub-window leaves the window. `age`: 0 for the newest sub-window, 1 for the
-- one before it, and so on.
local function leaves_at(limit, state, age) -- inlined
  return state[1] + (limit.segments + 1 - age) * limit.length
end

local function advance(limit, now, state) -- inlined
  local start, last = state[1], state[2]
  local keep
  if now < last - MAX_SKEW then
    start = start + (now - last)
    last = now
    keep = KEEP_ALWAYS
  end
  local t = max(now, last)
  local passed = floor((t - start) / limit.length)
  local new = { start + passed * limit.length, t }
  for i = 1, min(limit.segments + 1, passed + #state - 2) do
    new[2 + i] = i > passed and state[2 + i - passed] or 0
  end
  trim_oldest(new)
  if #new == 2 then
    new[1] = t
  end
  return keep, new
end

local function grants(limit, _, cost, n, state) -- inlined
  local sum = counted(state)
  return grants_within(limit.limit, sum, cost, n)
end

local function take(_, cost, times, state) -- inlined
  if cost * times > 0 then
    state[3] = (state[3] or 0) + cost * times
  end
  return state
end

local function chargeable(_, state)
  return MAX_PRODUCT - counted(state)
end

local function refund(limit, cost, charged_at, state)
  local over = charged_at and charged_at < state[1] - limit.segments * limit.length
  if over or #state == 2 then
    return nil
  end
  while cost > 0 and #state > 2 do
    local given = min(cost, state[#state])
    state[#state] = state[#state] - given
    cost = cost - given
    trim_oldest(state)
  end
  return state
end

-- y: when the check's sub-window leaves the window. z: 0 if it is not certain which sub-window was
-- charged.
local function undo(limit, _, cost, _, y, z, state)
  local since = state[1] - (y - (limit.segments + 1) * limit.length)
  if #state == 2 or since > limit.segments * limit.length then
    return 0
  elseif since < 0 or since % limit.length ~= 0 then
    return cost -- the clock was replaced
  end
  local place = 3 + since / limit.length
  local own = min(cost, state[place] or 0)
  if own > 0 then
    state[place] = state[place] - own
    trim_oldest(state)
  end
  return 0, z > 0 and refund(limit, cost - own, false, state) or state
end

local function snapshot(limit, cost, taken, now, state) -- inlined
  local sum = counted(state)
  local reset_at, retry_at = now, now
  local age = #state - 2
  local excess = sum + cost * taken + cost - limit.limit
  if cost <= limit.limit and excess > 0 then
    local left = 0
    while left < excess and age > 0 do
      age = age - 1
      left = left + state[3 + age]
    end
    retry_at = leaves_at(limit, state, age)
  end
  if cost * taken > 0 then
    reset_at = leaves_at(limit, state, 0)
  else
    for i = 3, #state do
      if state[i] > 0 then
        reset_at = leaves_at(limit, state, i - 3)
        break
      end
    end
  end
  return sum, reset_at, retry_at
end

local function lifetime(limit, now, state) -- inlined
  local ends = leaves_at(limit, state, 0)
  return ends - now
end

return {
  parse = parse, open = open, advance = advance, grants = grants, take = take,
  chargeable = chargeable, refund = refund, undo = undo, snapshot = snapshot, lifetime = lifetime,
}
