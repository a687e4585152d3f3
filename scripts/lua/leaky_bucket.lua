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
  return { 0, now }
end

function leaky_bucket.advance(limit, state, now)
  local level, last, keep = state[1], state[2], nil
  if now > last then
    -- Exact as long as the product is below 2^53; from there on it is rounded, and the bucket empty.
    level = level - (now - last) * limit.rate
    state[1] = level > 0 and level or 0
    state[2] = now
  elseif clock_was_replaced(last, now) then
    state[2] = now
    keep = KEEP_ALWAYS
  end
  return state, keep
end

function leaky_bucket.grants(limit, state, request, n)
  local level, cost = state[1], request.cost
  local longest = limit.capacity
  if limit.delays and request.max_wait then
    longest = inflow(request.max_wait, limit.rate, limit.capacity)
  end
  if level > longest or cost > limit.queue + 1 then
    return 0
  elseif cost == 0 then
    return n
  end
  local amount = cost * limit.period
  local in_time = floor((longest - level) / amount) + 1
  return min(n, in_time, floor((limit.capacity - level) / amount))
end

function leaky_bucket.take(limit, state, cost, times)
  state[1] = state[1] + cost * times * limit.period
  return state
end

function leaky_bucket.chargeable(limit, state)
  local room = limit.capacity + max_debt(limit.rate, limit.capacity) - state[1]
  return floor(max(0, room) / limit.period)
end

function leaky_bucket.refund(limit, state, cost)
  if state[1] == 0 then
    return nil
  elseif cost > floor(state[1] / limit.period) then
    state[1] = 0
  else
    state[1] = state[1] - cost * limit.period
  end
  return state
end

function leaky_bucket.snapshot(_, state)
  return state[1], state[2], 0
end

function leaky_bucket.lifetime(limit, state, now)
  return ceil(state[1] / limit.rate) + (state[2] - now)
end

return leaky_bucket
