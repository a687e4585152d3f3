-- Token bucket: per `period`, `rate` tokens are added; the bucket holds at most `burst`.
-- The twin of src/core/algorithm/token_bucket.h, which documents each function.
--
-- Parameters: rate (tokens per period), period (µs), burst (tokens), starts_empty (0 or 1),
--             borrows (0 or 1)
-- State:      level (one token is `period`; below zero: debt), time of that level (µs). In Lua,
--             if tokens are out in grants, a third number: how many are out (grants.lua)
-- Cost:       one key of the driver's MGET; one SETRANGE or SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local function parse(algorithm, numbers, at) -- inlined
  local rate, period, burst = numbers[at], numbers[at + 1], numbers[at + 2]
  local borrows = numbers[at + 4] == 1
  local debt = max_debt(rate, burst * period)
  return {
    algorithm = algorithm, rate = rate, period = period, capacity = burst * period,
    starts_empty = numbers[at + 3] == 1, borrows = borrows, max_debt = debt,
    max_cost = borrows and floor(debt / period) or burst,
  }
end

local function open(limit, now) -- inlined
  if limit.starts_empty then
    return KEEP_UNLESS_PEEK, 0, now
  end
  return nil, limit.capacity, now
end

local function advance(limit, now, level, last) -- inlined
  local keep
  if now > last then
    -- A product below 2^53 is exact. A larger one is rounded, but fills any bucket.
    level = level + (now - last) * limit.rate
    last = now
  elseif now < last - MAX_SKEW then
    last = now
    keep = KEEP_ALWAYS
  end
  local capacity = limit.capacity
  return keep, level < capacity and level or capacity, last
end

local function grants(limit, request, cost, n, level) -- inlined
  local max_wait, credit = request.max_wait, level
  if max_wait then
    local later = inflow(max_wait, limit.rate, limit.max_debt)
    credit = level + later
  end
  if credit < 0 or cost > limit.max_cost then
    return 0
  elseif cost == 0 then
    return n
  end
  local amount = cost * limit.period
  local due = floor(credit / amount)
  if limit.borrows then
    due = due + 1
  end
  return min(n, due, floor(max(0, level + limit.max_debt) / amount))
end

local function take(limit, cost, times, level, last) -- inlined
  return level - cost * times * limit.period, last
end

local function chargeable(limit, level)
  return floor(max(0, level + limit.max_debt) / limit.period)
end

local function refund(limit, cost, _, level, last)
  local room = limit.capacity - level
  if room <= 0 then
    return nil
  elseif cost > floor(room / limit.period) then
    return limit.capacity, last
  end
  return level + cost * limit.period, last
end

-- x, y: the state that the check found; z: how many tokens were out in grants at that time.
local function unused(limit, cost, x, y, z, last)
  local amount = cost * limit.period
  local missing, elapsed = limit.capacity - (x + z * limit.period - amount), last - y
  if elapsed < 0 then
    return nil
  elseif elapsed >= ceil(missing / limit.rate) then
    return 0
  end
  return min(missing - elapsed * limit.rate, amount)
end

local function undo(limit, _, cost, x, y, z, level, last)
  local more = unused(limit, cost, x, y, z, last)
  if not more then
    return cost
  elseif more == 0 then
    return 0
  end
  return 0, min(limit.capacity, level + more), last
end

-- stored: the stored level. since: its time. level, last: the level and its time after `advance`.
-- more: by how much the settlement changes the level. out: how many tokens are out in grants.
local function settled(limit, stored, since, level, last, more, out)
  since = min(since, last)
  if stored > level then
    return min(stored + more, MAX_PRODUCT / 2), since
  elseif more > 0 then
    local room = max(0, limit.capacity - out * limit.period)
    return min(stored + more, max(stored, room)), since
  end
  local lowest = min(stored, -limit.max_debt)
  local time = ceil(min(level - stored, level + more - lowest) / limit.rate)
  return level + more - time * limit.rate, last - time
end

local function lifetime(limit, now, level, last) -- inlined
  local full = ceil((limit.capacity - level) / limit.rate) + (last - now)
  if limit.starts_empty then
    return max(3600000000, 10 * ceil(limit.capacity / limit.rate), full)
  end
  return full
end

-- For grants.lua.

local function cap(limit, out, level, last)
  return min(level, max(0, limit.capacity - out * limit.period)), last, out
end

local function grantable(limit, level, last)
  return floor(level / limit.period), last, math.huge
end

return {
  fields = 2, parse = parse, open = open, advance = advance, grants = grants, take = take,
  chargeable = chargeable, refund = refund, undo = undo, unused = unused, settled = settled,
  lifetime = lifetime, lifetime_varies = true, cap = cap, level = grantable,
  last = function(_, last) return last end,
}
