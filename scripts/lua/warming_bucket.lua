-- Token bucket that warms up: prices fall from three times the stable interval to once.
-- The twin of src/core/algorithm/warming_bucket.h, where each function's meaning is told and whose
-- order of computing it follows.
--
-- Parameters: rate (tokens per period when warm), period (µs), warmup (µs)
-- State:      permits that have gathered in the idle time (not whole), when all is paid for (µs),
--             time of the latest change (µs)
-- Cost:       one GET's share of the driver's MGET, one SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local COLD_FACTOR = 3

local warming_bucket = { fields = 3 }

function warming_bucket.parse(limit, numbers, at)
  limit.warmup = numbers[at + 2]
  limit.stable = numbers[at + 1] / numbers[at]
  limit.most = limit.warmup / limit.stable
  limit.threshold = 0.5 * limit.most
  limit.cooldown = limit.warmup / limit.most
  limit.slope = (COLD_FACTOR - 1) * limit.stable / (limit.most - limit.threshold)
  limit.max_debt = 10 * max(limit.warmup, 60000000, ceil(COLD_FACTOR * limit.stable))
end

function warming_bucket.open(limit, now)
  return { limit.most, now, now }
end

function warming_bucket.advance(limit, state, now)
  local last, keep = state[3], nil
  if now > last then
    state[3] = now
  elseif clock_was_replaced(last, now) then
    state[2] = state[2] + (now - last)
    state[3] = now
    keep = KEEP_ALWAYS
  end
  local t, next_free = state[3], state[2]
  if t > next_free then
    state[1] = min(limit.most, state[1] + (t - next_free) / limit.cooldown)
    state[2] = t
  end
  return state, keep
end

function warming_bucket.grants(limit, state, request, n)
  local longest = min(request.max_wait or 0, limit.max_debt)
  local most = floor(min(limit.max_debt / (COLD_FACTOR * limit.stable), MAX_PRODUCT))
  local due = state[2] - state[3] <= longest
  return due and request.cost <= most and n or 0
end

local function price_at(limit, above)
  return limit.stable + above * limit.slope
end

local function price_of_stored(limit, stored, spent)
  local above = stored - limit.threshold
  local price = 0
  if above > 0 then
    local cold = min(above, spent)
    local edges = price_at(limit, above) + price_at(limit, above - cold)
    price = floor(cold * edges / 2)
    spent = spent - cold
  end
  return price + floor(limit.stable * spent)
end

function warming_bucket.take(limit, state, cost, times)
  if times == 0 then
    return state
  end
  local spent = min(cost, state[1])
  local price = price_of_stored(limit, state[1], spent)
    + floor((cost - spent) * limit.stable)
  state[1] = state[1] - spent
  state[2] = state[2] + price
  return state
end

function warming_bucket.chargeable(limit, state)
  local room = limit.max_debt - (state[2] - state[3])
  return max(0, floor(room / (COLD_FACTOR * limit.stable)))
end

function warming_bucket.refund(limit, state, cost)
  local debt = state[2] - state[3]
  if debt <= 0 then
    return nil
  end
  state[2] = state[2] - min(debt, floor(cost * limit.stable))
  return state
end

function warming_bucket.snapshot(_, state)
  return state[1], state[2], state[3]
end

function warming_bucket.lifetime(limit, state, now)
  return state[2] + ceil((limit.most - state[1]) * limit.cooldown) - now
end

return warming_bucket
