-- Sliding window log: at most `limit` units in every interval of the window's length.
-- The twin of src/core/algorithm/sliding_log.h, where each function's meaning is told.
--
-- Parameters: limit, window (µs)
-- Stored:     a sorted set with a member per admitted check (or run of equal ones). Score: its time
--             (µs) on the counter's own clock. Member, big-endian doubles, so that members of one
--             time sort by sum: running sum of all units up to it, its own units, and what the
--             counter's clock was ahead of the store's when it was written; the newest counts.
-- Cost:       2 calls to read; 1 to 16 more if it denies (a bisection over the entries); 4 to 7 to
--             write, which clears at most 64 entries that have left the window.
-- Atomic:     runs inside the driver's script, which reads before anything is written.

local MEMBER = '>ddd'
local MAX_ENTRIES = 10000
local MAX_CLEARED = 64

local function integer(number)
  return string.format('%d', number)
end

-- The entry at a rank (0 the oldest, -1 the newest): time, sum, units, offset; nothing if none.
local function entry_at(key, rank)
  local found = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
  if found[1] then
    return tonumber(found[2]), struct.unpack(MEMBER, found[1])
  end
end

-- When the nth unit in the window came, from 1; beyond those in it, now.
local function time_of_unit(state, nth)
  if nth > state.counted - state.added then
    return state.now
  end
  local target = state.before + nth
  local high = redis.call('ZCARD', state.key) - 1
  -- Entries hold at least one unit each, so none before this rank reaches the target; where all
  -- hold one, it is the entry looked for.
  local low = math.max(0, high - (state.sum - target))
  local time, sum = entry_at(state.key, low)
  while sum < target do
    local middle = math.floor((low + 1 + high) / 2)
    local middle_time, middle_sum = entry_at(state.key, middle)
    if middle_sum >= target then
      high = middle
      if high == low + 1 then
        return middle_time
      end
    else
      low = middle
    end
    if low + 1 == high then
      return (entry_at(state.key, high))
    end
  end
  return time
end

local sliding_log = {}

function sliding_log.parse(limit, numbers, at)
  limit.limit = numbers[at]
  limit.window = numbers[at + 1]
end

-- Returns the state as stored, or nothing.
function sliding_log.read(key)
  local newest, sum, units, offset = entry_at(key, -1)
  if newest then
    return { key = key, newest = newest, sum = sum, units = units, offset = offset, added = 0 }
  end
end

function sliding_log.open(_, now, key)
  return { key = key, sum = 0, offset = 0, added = 0, now = now, before = 0, counted = 0 }, KEEP_NO
end

function sliding_log.advance(limit, state, now)
  local new = {}
  for name, value in pairs(state) do
    new[name] = value
  end
  if not new.newest then
    return new, KEEP_NO -- opened in this run
  end
  local keep = KEEP_NO
  if clock_was_replaced(new.newest, now + new.offset) then
    new.offset = new.newest - now
    keep = KEEP_ALWAYS
  end
  new.now = math.max(now + new.offset, new.newest)
  if new.newest + limit.window <= new.now then
    return sliding_log.open(limit, now, new.key)
  end
  local live = redis.call('ZRANGEBYSCORE', new.key, '(' .. integer(new.now - limit.window),
    '+inf', 'LIMIT', 0, 1)
  local sum, units = struct.unpack(MEMBER, live[1])
  new.before = sum - units
  new.counted = new.sum - new.before + new.added
  return new, keep
end

function sliding_log.grants(limit, state, cost, n)
  if state.counted > limit.limit then
    return 0
  elseif cost == 0 then
    return n
  end
  return math.min(n, math.floor((limit.limit - state.counted) / cost))
end

function sliding_log.take(_, state, cost, times)
  state.added = state.added + cost * times
  state.counted = state.counted + cost * times
  return state
end

function sliding_log.snapshot(limit, state, cost, taken, now)
  local newest = state.added > 0 and state.now or state.newest or state.now
  local retry_at = now
  local excess = state.counted + cost * taken + cost - limit.limit
  if cost <= limit.limit and excess > 0 then
    retry_at = time_of_unit(state, excess) + limit.window - state.offset
  end
  return state.counted, newest - state.offset, retry_at
end

function sliding_log.lifetime(limit, state, now)
  local newest = state.added > 0 and state.now or state.newest
  return newest + limit.window - state.offset - now
end

-- Adds what was taken as one entry, and clears entries that have left the window.
local function append(limit, state)
  local key = state.key
  local at, sum, units = state.now, state.added, state.added
  if state.counted == state.added then
    redis.call('UNLINK', key)
  else
    local gone = redis.call('ZCOUNT', key, '-inf', integer(state.now - limit.window))
    if gone > 0 then
      redis.call('ZREMRANGEBYRANK', key, 0, math.min(gone, MAX_CLEARED) - 1)
    end
    sum = state.sum + state.added
    if state.newest == at or redis.call('ZCARD', key) >= MAX_ENTRIES then
      units = units + state.units
      redis.call('ZREMRANGEBYRANK', key, -1, -1)
    end
  end
  redis.call('ZADD', key, integer(at), struct.pack(MEMBER, sum, units, state.offset))
end

function sliding_log.write(limit, key, state, milliseconds)
  if state.added > 0 then
    append(limit, state)
  else
    redis.call('ZREMRANGEBYRANK', key, -1, -1)
    redis.call('ZADD', key, integer(state.newest),
      struct.pack(MEMBER, state.sum, state.units, state.offset))
  end
  redis.call('PEXPIRE', key, milliseconds)
end

return sliding_log
