-- Leaky bucket as a queue: units drain evenly at `rate` per `period`. The twin of
-- src/core/algorithm/leaky_bucket.h, which documents each function.
--
-- Parameters: rate (units per period), period (µs), queue (units), delays (0 or 1)
-- State:      level (what has not drained yet, in 1/period of a unit), time of that level (µs)
-- Cost:       one key of the driver's MGET; one SETRANGE or SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local function parse(algorithm, numbers, at) -- inlined
  local period, queue = numbers[at + 1], numbers[at + 2]
  return {
    algorithm = algorithm, rate = numbers[at], period = period, queue = queue,
    delays = numbers[at + 3] == 1, capacity = (queue + 1) * period,
  }
end

local function open(_, now) -- inlined
  return nil, 0, now
end

local function advance(limit, now, level, last) -- inlined
  if now > last then
    -- A product below 2^53 is exact. A larger one is rounded, but empties any bucket.
    level = level - (now - last) * limit.rate
    return nil, level > 0 and level or 0, now
  elseif now < last - MAX_SKEW then
    return KEEP_ALWAYS, level, now
  end
  return nil, level, last
end

local function grants(limit, request, cost, n, level) -- inlined
  local max_delay, capacity = request.max_delay, limit.capacity
  local longest = capacity
  if limit.delays and max_delay and cost > 0 then
    longest = inflow(max_delay, limit.rate, capacity)
  end
  if level > longest or cost > limit.queue + 1 then
    return 0
  elseif cost == 0 then
    return n
  end
  local amount = cost * limit.period
  local in_time = floor((longest - level) / amount) + 1
  return min(n, in_time, floor((capacity - level) / amount))
end

local function take(limit, cost, times, level, last) -- inlined
  return level + cost * times * limit.period, last
end

local function chargeable(limit, level)
  local room = limit.capacity + max_debt(limit.rate, limit.capacity) - level
  return floor(max(0, room) / limit.period)
end

local function refund(limit, cost, _, level, last)
  if level == 0 then
    return nil
  elseif cost > floor(level / limit.period) then
    return 0, last
  end
  return level - cost * limit.period, last
end

-- x, y, z: the fields of the state that the check found. Returns the change of the level, and the
-- level that the bucket would have now if no other check had charged it since.
local function unused(limit, cost, x, y, _, last)
  local amount = cost * limit.period
  local after, elapsed = x + amount, last - y
  if elapsed < 0 then
    return nil
  elseif elapsed >= ceil(after / limit.rate) then
    return 0
  end
  local left = after - elapsed * limit.rate
  return -min(left, amount), left
end

local function undo(limit, _, cost, x, y, z, level, last)
  local more, left = unused(limit, cost, x, y, z, last)
  if more == 0 then
    return 0
  elseif not more or limit.delays and level ~= left then
    return cost
  end
  return 0, max(0, level + more), last
end

-- stored: the stored level. since: its time. level, last: the level and its time after `advance`.
-- more: the change of the level.
local function settled(limit, stored, since, level, last, more)
  if more < 0 then
    return max(0, stored + more), min(since, last)
  end
  local highest = max(stored, limit.capacity + max_debt(limit.rate, limit.capacity))
  local time = ceil(min(stored - level, highest - level - more) / limit.rate)
  return level + more + time * limit.rate, last - time
end

local function lifetime(limit, now, level, last) -- inlined
  return ceil(level / limit.rate) + (last - now)
end

return {
  fields = 2, parse = parse, open = open, advance = advance, grants = grants, take = take,
  chargeable = chargeable, refund = refund, undo = undo, unused = unused, settled = settled,
  lifetime = lifetime, lifetime_varies = true,
}
