-- Token bucket: tokens drip in at `rate` per `period` up to `burst`.
-- The twin of src/core/algorithm/token_bucket.h, where each function's meaning is told.
--
-- Parameters: rate (tokens per period), period (µs), burst (tokens), starts_empty (0 or 1),
--             borrows (0 or 1)
-- State:      level (in 1/period of a token; below zero: debt), time of that level (µs)
-- Cost:       one GET's share of the driver's MGET, one SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local token_bucket = { fields = 2 }

function token_bucket.parse(limit, numbers, at)
  limit.rate = numbers[at]
  limit.period = numbers[at + 1]
  limit.burst = numbers[at + 2]
  limit.starts_empty = numbers[at + 3] == 1
  limit.borrows = numbers[at + 4] == 1
  limit.capacity = limit.burst * limit.period
  limit.max_debt = max_debt(limit.rate, limit.capacity)
  limit.max_cost = limit.borrows and floor(limit.max_debt / limit.period) or limit.burst
end

function token_bucket.open(limit, now)
  if limit.starts_empty then
    return { 0, now }, KEEP_UNLESS_PEEK
  end
  return { limit.capacity, now }
end

function token_bucket.advance(limit, state, now)
  local level, last, keep = state[1], state[2], nil
  if now > last then
    -- Exact as long as the product is below 2^53; from there on it is rounded, and the bucket full.
    level = level + (now - last) * limit.rate
    state[2] = now
  elseif clock_was_replaced(last, now) then
    state[2] = now
    keep = KEEP_ALWAYS
  end
  state[1] = level < limit.capacity and level or limit.capacity
  return state, keep
end

function token_bucket.grants(limit, state, request, n)
  local level, cost, credit = state[1], request.cost, state[1]
  if request.max_wait then
    credit = level + inflow(request.max_wait, limit.rate, limit.max_debt)
  end
  if credit < 0 or cost > limit.max_cost then
    return 0
  elseif cost == 0 then
    return n
  end
  local amount = cost * limit.period
  local due = floor(credit / amount) + (limit.borrows and 1 or 0)
  local room = floor(max(0, level + limit.max_debt) / amount)
  return min(n, due, room)
end

function token_bucket.take(limit, state, cost, times)
  state[1] = state[1] - cost * times * limit.period
  return state
end

function token_bucket.chargeable(limit, state)
  return floor(max(0, state[1] + limit.max_debt) / limit.period)
end

function token_bucket.refund(limit, state, cost)
  local room = limit.capacity - state[1]
  if room <= 0 then
    return nil
  elseif cost > floor(room / limit.period) then
    state[1] = limit.capacity
  else
    state[1] = state[1] + cost * limit.period
  end
  return state
end

function token_bucket.snapshot(_, state)
  return state[1], state[2], 0
end

function token_bucket.lifetime(limit, state, now)
  local full = ceil((limit.capacity - state[1]) / limit.rate) + (state[2] - now)
  if limit.starts_empty then
    return max(3600000000, 10 * ceil(limit.capacity / limit.rate), full)
  end
  return full
end

return token_bucket
