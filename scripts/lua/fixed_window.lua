-- Fixed window counter: at most `limit` units in each window.
-- The twin of src/core/algorithm/fixed_window.h, where each function's meaning is told.
--
-- Parameters: limit, window (µs; 0 with months), align (0 first request, 1 clock, 2 calendar month),
--             offset of local time from UTC (µs)
-- State:      start of the window (µs), units taken in it, time of the latest change (µs)
-- Cost:       one GET's share of the driver's MGET, one SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local FIRST, CLOCK = 0, 1
local DAY = 86400000000

local function month_start(limit, t)
  -- The civil calendar in years that begin in March, after H. Hinnant, "chrono-Compatible
  -- Low-Level Date Algorithms".
  local days = floor((t + limit.offset) / DAY)
  local shifted = days + 719468
  local day_of_era = shifted % 146097
  local year_of_era = floor((day_of_era - floor(day_of_era / 1460)
    + floor(day_of_era / 36524) - floor(day_of_era / 146096)) / 365)
  local day_of_year = day_of_era
    - (365 * year_of_era + floor(year_of_era / 4) - floor(year_of_era / 100))
  local month = floor((5 * day_of_year + 2) / 153)
  local day_of_month = day_of_year - floor((153 * month + 2) / 5)
  return (days - day_of_month) * DAY - limit.offset
end

local function window_start(limit, t)
  if limit.align == FIRST then
    return t
  elseif limit.align == CLOCK then
    -- 1970-01-05, the fifth day of the epoch, was a Monday.
    local anchor = (limit.window == 7 * DAY and 4 * DAY or 0) - limit.offset
    return anchor + floor((t - anchor) / limit.window) * limit.window
  end
  return month_start(limit, t)
end

local function window_end(limit, start)
  if limit.align == FIRST or limit.align == CLOCK then
    return start + limit.window
  end
  -- 31 days after the first of any month lies in the next one.
  return month_start(limit, start + 31 * DAY)
end

local fixed_window = { fields = 3 }

function fixed_window.parse(limit, numbers, at)
  limit.limit = numbers[at]
  limit.window = numbers[at + 1]
  limit.align = numbers[at + 2]
  limit.offset = numbers[at + 3]
end

function fixed_window.open(limit, now)
  return { window_start(limit, now), 0, now }
end

function fixed_window.advance(limit, state, now)
  local start, last, keep = state[1], state[3], nil
  if now > last then
    state[3] = now
  elseif clock_was_replaced(last, now) then
    state[1] = limit.align == FIRST and start + (now - last) or window_start(limit, now)
    state[3] = now
    keep = KEEP_ALWAYS
  end
  if state[3] >= window_end(limit, state[1]) then
    state[1], state[2] = window_start(limit, state[3]), 0
  end
  return state, keep
end

function fixed_window.grants(limit, state, request, n)
  return grants_within(limit.limit, state[2], request.cost, n)
end

function fixed_window.take(_, state, cost, times)
  state[2] = state[2] + cost * times
  return state
end

function fixed_window.chargeable(_, state)
  return MAX_PRODUCT - state[2]
end

function fixed_window.refund(_, state, cost, charged_at)
  if state[2] == 0 or (charged_at and charged_at < state[1]) then
    return nil
  end
  state[2] = max(0, state[2] - cost)
  return state
end

function fixed_window.snapshot(_, state)
  return state[1], state[2], state[3]
end

function fixed_window.lifetime(limit, state, now)
  return window_end(limit, state[1]) - now
end

return fixed_window
