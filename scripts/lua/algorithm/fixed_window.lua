-- Fixed window counter: at most `limit` units in each window.
-- The twin of src/core/algorithm/fixed_window.h, which documents each function.
--
-- Parameters: limit, window (µs; 0 with months), align (0 first request, 1 clock, 2 calendar month,
--             3 epoch), offset of local time from UTC (µs)
-- State:      start of the window (µs), units taken in it, time of the latest change (µs)
-- Cost:       one key of the driver's MGET; one SETRANGE or SET if charged.
-- Atomic:     runs inside the driver's script; reads and writes nothing itself.

local FIRST, CLOCK, MONTH = 0, 1, 2
local DAY = 86400000000

local function month_start(limit, t) -- inlined
  -- The civil calendar in years that begin in March, as in H. Hinnant, "chrono-Compatible Low-Level
  -- Date Algorithms".
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

local function window_start(limit, t) -- inlined
  if limit.align == FIRST then
    return t
  elseif limit.align == CLOCK then
    -- 1970-01-05, the fifth day of the epoch, was a Monday.
    local anchor = (limit.window == 7 * DAY and 4 * DAY or 0) - limit.offset
    return anchor + floor((t - anchor) / limit.window) * limit.window
  elseif limit.align == MONTH then
    return month_start(limit, t)
  end
  return floor(t / limit.window) * limit.window
end

local function window_end(limit, start) -- inlined
  if limit.align ~= MONTH then
    return start + limit.window
  end
  -- 31 days after the first of any month is in the next month.
  return month_start(limit, start + 31 * DAY)
end

local function parse(algorithm, numbers, at) -- inlined
  return {
    algorithm = algorithm, limit = numbers[at], window = numbers[at + 1], align = numbers[at + 2],
    offset = numbers[at + 3],
  }
end

local function open(limit, now) -- inlined
  local start = window_start(limit, now)
  return nil, start, 0, now
end

local function advance(limit, now, start, count, last) -- inlined
  local keep
  if now > last then
    last = now
  elseif now < last - MAX_SKEW then
    start = start + (now - last)
    if limit.align ~= FIRST then
      start = window_start(limit, now)
    end
    last = now
    keep = KEEP_ALWAYS
  end
  local ends = window_end(limit, start)
  if last >= ends then
    count = 0
    start = window_start(limit, last)
  end
  return keep, start, count, last
end

local function grants(limit, _, cost, n, _, count) -- inlined
  return grants_within(limit.limit, count, cost, n)
end

local function take(_, cost, times, start, count, last) -- inlined
  return start, count + cost * times, last
end

-- The state after consecutive charges; nil if there is no room for any.
local function charge(_, cost, times, start, count, last)
  if count == MAX_PRODUCT then
    return nil
  end
  return start, min(count + cost * times, MAX_PRODUCT), last
end

local function chargeable(_, _, count)
  return MAX_PRODUCT - count
end

local function refund(_, cost, charged_at, start, count, last)
  if count == 0 or (charged_at and charged_at < start) then
    return nil
  end
  return start, max(0, count - cost), last
end

-- x, y, z: the fields of the state that the check found.
local function undo(_, _, cost, x, _, _, start, count, last)
  if start < x then
    return cost
  elseif start > x or count == 0 then
    return 0
  end
  return 0, start, max(0, count - cost), last
end

local function lifetime(limit, now, start) -- inlined
  local ends = window_end(limit, start)
  return ends - now
end

-- The next two functions are for grants.lua. The count includes the units that are out.

local function cap(_, out, start, count, last)
  return start, max(count, out), last
end

local function grantable(limit, start, count, last)
  return limit.limit - count, last, window_end(limit, start)
end

return {
  fields = 3, parse = parse, open = open, advance = advance, grants = grants, take = take,
  charge = charge, chargeable = chargeable, refund = refund, undo = undo, lifetime = lifetime,
  cap = cap, level = grantable, last = function(_, _, last) return last end,
  is_new = function(_, count) return count == 0 end,
}
