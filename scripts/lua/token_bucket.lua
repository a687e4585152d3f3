-- Token bucket: tokens drip in at `rate` per `period` up to `burst`.
-- The twin of src/core/algorithm/token_bucket.h, where each function's meaning is told.
--
-- Parameters: rate (tokens per period), period (µs), burst (tokens), starts_empty (0 or 1),
--             borrows (0 or 1)
-- State:      level (in 1/period of a token; below zero: debt), time of that level (µs)
-- Cost:       one GET's share of the driver's MGET, one SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

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
  limit.borrows = numbers[at + 4] == 1
  limit.capacity = limit.burst * limit.period
  limit.max_debt = max_debt(limit.rate, limit.capacity)
end

function token_bucket.open(limit, now)
  if limit.starts_empty then
    return { 0, now }, KEEP_UNLESS_PEEK
  end
  return { limit.capacity, now }, KEEP_NO
end

function token_bucket.advance(limit, state, now)
  local level, last = state[1], state[2]
  local keep = KEEP_NO
  if clock_was_replaced(last, now) then
    last = now
    keep = KEEP_ALWAYS
  end
  local t = math.max(now, last)
  if t - last >= time_to_reach(limit, limit.capacity, state) then
    level = limit.capacity
  else
    level = level + (t - last) * limit.rate
  end
  return { level, t }, keep
end

function token_bucket.grants(limit, state, check, n)
  local level, cost = state[1], check.cost
  local credit = level + advanced(check.max_wait, limit.rate, limit.max_debt)
  local most = limit.borrows and math.floor(limit.max_debt / limit.period) or limit.burst
  if credit < 0 or cost > most then
    return 0
  elseif cost == 0 then
    return n
  end
  local amount = cost * limit.period
  local due = math.floor(credit / amount) + (limit.borrows and 1 or 0)
  local room = math.floor(math.max(0, level + limit.max_debt) / amount)
  return math.min(n, due, room)
end

function token_bucket.take(limit, state, cost, times)
  return { state[1] - cost * times * limit.period, state[2] }
end

function token_bucket.chargeable(limit, state)
  return math.floor(math.max(0, state[1] + limit.max_debt) / limit.period)
end

function token_bucket.refund(limit, state, cost)
  local room = limit.capacity - state[1]
  if room <= 0 then
    return nil
  elseif cost > math.floor(room / limit.period) then
    return { limit.capacity, state[2] }
  end
  return { state[1] + cost * limit.period, state[2] }
end

function token_bucket.snapshot(_, state)
  return state[1], state[2]
end

function token_bucket.lifetime(limit, state, now)
  local full = time_to_reach(limit, limit.capacity, state) + (state[2] - now)
  if limit.starts_empty then
    return math.max(3600000000, 10 * math.ceil(limit.capacity / limit.rate), full)
  end
  return full
end

return token_bucket
