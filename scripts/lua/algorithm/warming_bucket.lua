-- Token bucket with warmup: in a cold bucket, a permit costs three times the stable interval; in a
-- warm one, it costs the stable interval. The twin of src/core/algorithm/warming_bucket.h, which
-- documents each function and computes in the same order.
--
-- Parameters: rate (tokens per period when warm), period (µs), warmup (µs)
-- State:      permits stored while idle (maybe not a whole number), time at which all checks are
--             paid for (µs), time of the latest change (µs)
-- Cost:       one key of the driver's MGET; one SETRANGE or SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local COLD_FACTOR = 3

local function parse(algorithm, numbers, at) -- inlined
  local warmup = numbers[at + 2]
  local stable = numbers[at + 1] / numbers[at]
  local most = warmup / stable
  local threshold = 0.5 * most
  return {
    algorithm = algorithm, warmup = warmup, stable = stable, most = most, threshold = threshold,
    cooldown = warmup / most, slope = (COLD_FACTOR - 1) * stable / (most - threshold),
    max_debt = 10 * max(warmup, 60000000, ceil(COLD_FACTOR * stable)),
  }
end

local function open(limit, now) -- inlined
  return nil, limit.most, now, now
end

local function advance(limit, now, stored, next_free, last) -- inlined
  local keep
  if now > last then
    last = now
  elseif now < last - MAX_SKEW then
    next_free = next_free + (now - last)
    last = now
    keep = KEEP_ALWAYS
  end
  local idle = max(last - next_free, 0)
  stored = min(limit.most, stored + idle / limit.cooldown)
  return keep, stored, next_free + idle, last
end

local function grants(limit, request, cost, n, _, next_free, last) -- inlined
  local longest = min(request.max_wait or 0, limit.max_debt)
  local most = floor(min(limit.max_debt / (COLD_FACTOR * limit.stable), MAX_PRODUCT))
  local due = next_free - last <= longest
  return due and cost <= most and n or 0
end

local function price_at(limit, above) -- inlined
  return limit.stable + above * limit.slope
end

local function price_of_stored(limit, stored, spent) -- inlined
  local above = stored - limit.threshold
  local price = 0
  if above > 0 then
    local cold = min(above, spent)
    local highest = price_at(limit, above)
    local lowest = price_at(limit, above - cold)
    price = cold * (highest + lowest) / 2
    spent = spent - cold
  end
  return price + limit.stable * spent
end

local function take(limit, cost, times, stored, next_free, last) -- inlined
  if times == 0 then
    return stored, next_free, last
  end
  local spent = min(cost, stored)
  local price = price_of_stored(limit, stored, spent)
  price = ceil(price + (cost - spent) * limit.stable)
  return stored - spent, next_free + price, last
end

local function chargeable(limit, _, next_free, last)
  local room = limit.max_debt - (next_free - last)
  return max(0, floor(room / (COLD_FACTOR * limit.stable)))
end

local function refund(limit, cost, _, stored, next_free, last)
  local debt = next_free - last
  if debt <= 0 then
    return nil
  end
  return stored, next_free - min(debt, floor(cost * limit.stable)), last
end

-- x, y, z: the state that the check found.
local function undo(limit, _, cost, x, y, z, stored, next_free, last)
  if last < z then
    return cost
  end
  local stored_after, free_after = take(limit, cost, 1, x, y, z)
  local price = free_after - y
  local owed = min(max(free_after - last, 0), price)
  local since = max(last - free_after, 0)
  if stored_after + since / limit.cooldown >= limit.most then
    return 0
  end
  local spent = x - stored_after
  return 0, min(limit.most, stored + spent + (price - owed) / limit.cooldown),
    max(last, next_free - owed), last
end

local function lifetime(limit, now, stored, next_free) -- inlined
  return next_free + ceil((limit.most - stored) * limit.cooldown) - now
end

return {
  fields = 3, parse = parse, open = open, advance = advance, grants = grants, take = take,
  chargeable = chargeable, refund = refund, undo = undo, lifetime = lifetime,
  lifetime_varies = true, gives_nothing_back = true,
}
