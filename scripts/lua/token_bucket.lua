-- Token bucket: tokens drip in at `rate` per `period` up to `burst`.
-- The twin of src/core/algorithm/token_bucket.h, where each function's meaning is told.
--
-- Parameters: rate (tokens per period), period (µs), burst (tokens), starts_empty (0 or 1)
-- State:      level (in 1/period of a token), time of that level (µs)
-- Cost:       one GET's share of the driver's MGET, one SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local function capacity(limit)
  return limit.burst * limit.period
end

local function time_to_reach(limit, level, state)
  if level <= state[1] then
    return 0
  end
  return math.ceil((level - state[1]) / limit.rate)
end

local token_bucket = { fields = 2 }

function token_bucket.parse(limit, numbers, at)
  limit.rate = numbers[at]
  limit.period = numbers[at + 1]
  limit.burst = numbers[at + 2]
  limit.starts_empty = numbers[at + 3] == 1
end

function token_bucket.open(limit, now)
  if limit.starts_empty then
    return { 0, now }, KEEP_UNLESS_PEEK
  end
  return { capacity(limit), now }, KEEP_NO
end

function token_bucket.advance(limit, state, now)
  local level, last = state[1], state[2]
  local keep = KEEP_NO
  if clock_was_replaced(last, now) then
    last = now
    keep = KEEP_ALWAYS
  end
  local t = math.max(now, last)
  if t - last >= time_to_reach(limit, capacity(limit), state) then
    level = capacity(limit)
  else
    level = level + (t - last) * limit.rate
  end
  return { level, t }, keep
end

function token_bucket.grants(limit, state, cost, n)
  if state[1] < 0 or cost > limit.burst then
    return 0
  elseif cost == 0 then
    return n
  end
  return math.min(n, math.floor(state[1] / (cost * limit.period)))
end

function token_bucket.take(limit, state, cost, times)
  return { state[1] - cost * times * limit.period, state[2] }
end

function token_bucket.snapshot(_, state)
  return state[1], state[2]
end

function token_bucket.lifetime(limit, state, now)
  if limit.starts_empty then
    return math.max(3600000000, 10 * math.ceil(capacity(limit) / limit.rate))
  end
  return time_to_reach(limit, capacity(limit), state) + (state[2] - now)
end

return token_bucket
