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
  limit.max_debt = 10 * math.max(limit.warmup, 60000000, math.ceil(COLD_FACTOR * limit.stable))
end

function warming_bucket.open(limit, now)
  return { limit.most, now, now }, KEEP_NO
end

function warming_bucket.advance(limit, state, now)
  local stored, next_free, last = state[1], state[2], state[3]
  local keep = KEEP_NO
  if clock_was_replaced(last, now) then
    next_free = next_free + (now - last)
    last = now
    keep = KEEP_ALWAYS
  end
  local t = math.max(now, last)
  if t > next_free then
    stored = math.min(limit.most, stored + (t - next_free) / limit.cooldown)
    next_free = t
  end
  return { stored, next_free, t }, keep
end

function warming_bucket.grants(limit, state, check, n)
  local longest = math.min(math.max(0, check.max_wait or 0), limit.max_debt)
  local most = math.floor(math.min(limit.max_debt / (COLD_FACTOR * limit.stable), MAX_PRODUCT))
  local due = state[2] - state[3] <= longest
  return due and check.cost <= most and n or 0
end

local function price_at(limit, above)
  return limit.stable + above * limit.slope
end

local function price_of_stored(limit, stored, spent)
  local above = stored - limit.threshold
  local price = 0
  if above > 0 then
    local cold = math.min(above, spent)
    local edges = price_at(limit, above) + price_at(limit, above - cold)
    price = math.floor(cold * edges / 2)
    spent = spent - cold
  end
  return price + math.floor(limit.stable * spent)
end

function warming_bucket.take(limit, state, cost, times)
  if times == 0 then
    return state
  end
  local spent = math.min(cost, state[1])
  local price = price_of_stored(limit, state[1], spent)
    + math.floor((cost - spent) * limit.stable)
  return { state[1] - spent, state[2] + price, state[3] }
end

function warming_bucket.chargeable(limit, state)
  local room = limit.max_debt - (state[2] - state[3])
  return math.max(0, math.floor(room / (COLD_FACTOR * limit.stable)))
end

function warming_bucket.refund(limit, state, cost)
  local debt = state[2] - state[3]
  if debt <= 0 then
    return nil
  end
  return { state[1], state[2] - math.min(debt, math.floor(cost * limit.stable)), state[3] }
end

function warming_bucket.snapshot(_, state)
  return state[1], state[2], state[3]
end

function warming_bucket.lifetime(limit, state, now)
  return state[2] + math.ceil((limit.most - state[1]) * limit.cooldown) - now
end

return warming_bucket
