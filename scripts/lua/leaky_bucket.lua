-- Leaky bucket as a queue: what comes in runs out evenly at `rate` per `period`.
-- The twin of src/core/algorithm/leaky_bucket.h, where each function's meaning is told.
--
-- Parameters: rate (units per period), period (µs), queue (units), delays (0 or 1)
-- State:      level: what has not run out yet (in 1/period of a unit), time of that level (µs)
-- Cost:       one GET's share of the driver's MGET, one SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local leaky_bucket = { fields = 2 }

function leaky_bucket.parse(limit, numbers, at)
  limit.rate = numbers[at]
  limit.period = numbers[at + 1]
  limit.queue = numbers[at + 2]
  limit.delays = numbers[at + 3] == 1
  limit.capacity = (limit.queue + 1) * limit.period
end

function leaky_bucket.open(_, now)
  return { 0, now }, KEEP_NO
end

function leaky_bucket.advance(limit, state, now)
  local level, last = state[1], state[2]
  local keep = KEEP_NO
  if clock_was_replaced(last, now) then
    last = now
    keep = KEEP_ALWAYS
  end
  local t = math.max(now, last)
  if t - last >= math.ceil(level / limit.rate) then
    level = 0
  else
    level = level - (t - last) * limit.rate
  end
  return { level, t }, keep
end

function leaky_bucket.grants(limit, state, check, n)
  local level, cost = state[1], check.cost
  local longest = limit.capacity
  if limit.delays and check.max_wait and check.max_wait >= 0 then
    longest = advanced(check.max_wait, limit.rate, limit.capacity)
  end
  if level > longest or cost > limit.queue + 1 then
    return 0
  elseif cost == 0 then
    return n
  end
  local amount = cost * limit.period
  local in_time = math.floor((longest - level) / amount) + 1
  return math.min(n, in_time, math.floor((limit.capacity - level) / amount))
end

function leaky_bucket.take(limit, state, cost, times)
  return { state[1] + cost * times * limit.period, state[2] }
end

function leaky_bucket.chargeable(limit, state)
  local room = limit.capacity + max_debt(limit.rate, limit.capacity) - state[1]
  return math.floor(math.max(0, room) / limit.period)
end

function leaky_bucket.refund(limit, state, cost)
  if state[1] == 0 then
    return nil
  elseif cost > math.floor(state[1] / limit.period) then
    return { 0, state[2] }
  end
  return { state[1] - cost * limit.period, state[2] }
end

function leaky_bucket.snapshot(_, state)
  return state[1], state[2]
end

function leaky_bucket.lifetime(limit, state, now)
  return math.ceil(state[1] / limit.rate) + (state[2] - now)
end

return leaky_bucket
