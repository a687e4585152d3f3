-- Sliding window log: at most `limit` units in every interval of the window's length.
-- The twin of src/core/algorithm/sliding_log.h, which documents each function.
--
-- Parameters: limit, window (µs)
-- Stored:     a sorted set with a member per admitted check (or coalesced checks). Score: the time
--             of the check (µs) on the counter's own clock. Member: big-endian doubles, so that
--             members of one time sort by sum. Doubles 1 and 2 are the sum of all units up to and
--             with this member, and its own units. Double 3 is the counter's clock minus the
--             store's when the member was written. Double 4 is present if units were refunded: the
--             sum up to which they were refunded. Doubles 3 and 4 are valid only in the newest
--             member.
-- Cost:       2 calls to read; at most 17 more to deny (a bisection over the entries); 2 to 6 to
--             write; 4 to undo, of which 3 concern at most 257 entries each. A write removes at
--             most 64 entries that have left the window, or all entries if all have left it.
-- Atomic:     runs inside the driver's script, which reads before it writes; only undo
--             writes immediately.

local MAX_ENTRIES = 10000
local MAX_CLEARED = 64
local MAX_SHIFTED = 256

-- Returns sum, units, offset, refunded.
local function unpack_member(member) -- inlined
  local sum, units, offset = unpack_numbers('>ddd', member)
  return sum, units, offset, #member > 24 and unpack_numbers('>d', member, 25) or 0
end

local function pack_member(state, sum, units) -- inlined
  local member = pack_numbers('>ddd', sum, units, state.offset)
  return state.refunded > 0 and member .. pack_numbers('>d', state.refunded) or member
end

-- The entry at a rank (0: the oldest, -1: the newest) as time, member, sum, units, offset,
-- refunded; nil if no entry has this rank.
local function entry_at(key, rank) -- inlined
  local found = call('ZRANGE', key, rank, rank, 'WITHSCORES')
  if found[1] then
    local sum, units, offset, refunded = unpack_member(found[1])
    return tonumber(found[2]), found[1], sum, units, offset, refunded
  end
end

-- Adds an entry and removes `old`, if there is one, in this order: while the key's slot of the
-- Cluster migrates to another node, a key that has been deleted cannot be written here again, and
-- the script would end after some of its writes.
local function replace(key, time, member, old) -- inlined
  call('ZADD', key, format('%d', time), member)
  if old and old ~= member then
    call('ZREM', key, old)
  end
end

-- The time at which the nth unit (from 1) in the window was taken; now if there are fewer units.
local function time_of_unit(state, nth) -- inlined
  if nth > state.sum - state.before then
    return state.now
  end
  local target = state.before + nth
  local high = call('ZCARD', state.key) - 1
  -- Each entry holds at least one unit, so no entry before this rank reaches the target. If each
  -- holds exactly one, the entry at this rank reaches it.
  local low = max(0, high - (state.sum - target))
  local time, _, sum = entry_at(state.key, low)
  if sum >= target then
    return time
  end
  local high_time -- nil: not read yet
  while low + 1 < high do
    local middle = floor((low + high) / 2)
    local middle_time, _, middle_sum = entry_at(state.key, middle)
    if middle_sum >= target then
      high, high_time = middle, middle_time
    else
      low = middle
    end
  end
  if not high_time then
    high_time = entry_at(state.key, high)
  end
  return high_time
end

local function parse(algorithm, numbers, at) -- inlined
  return { algorithm = algorithm, limit = numbers[at], window = numbers[at + 1] }
end

-- Returns the stored state; nil if nothing is stored, false if its format is unknown.
local function read(key) -- inlined
  local found = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local member = found[1]
  if not member then
    return nil
  elseif #member < 24 then
    return false
  end
  local sum, units, offset, refunded = unpack_member(member)
  return {
    key = key, newest = tonumber(found[2]), member = member, sum = sum, units = units,
    offset = offset, refunded = refunded, added = 0,
  }
end

local function open(_, now, key) -- inlined
  return nil, {
    key = key, sum = 0, offset = 0, refunded = 0, added = 0, now = now, before = 0, counted = 0,
  }
end

local function advance(limit, now, state) -- inlined
  if state.restarts or not state.newest then
    return nil, state -- created by this script call
  end
  local keep
  if now + state.offset < state.newest - MAX_SKEW then
    state.offset = state.newest - now
    keep = KEEP_ALWAYS
  end
  state.now = max(now + state.offset, state.newest)
  if state.newest + limit.window <= state.now then
    local _, new = open(limit, now, state.key)
    new.stale = true
    return nil, new
  end
  local live = call('ZRANGEBYSCORE', state.key, '(' .. format('%d', state.now - limit.window),
    '+inf', 'LIMIT', 0, 1)
  local sum, units = unpack_member(live[1])
  state.before = max(sum - units, state.refunded)
  state.counted = state.sum - state.before + state.added
  return keep, state
end

local function grants(limit, _, cost, n, state) -- inlined
  return grants_within(limit.limit, state.counted, cost, n)
end

local function take(_, cost, times, state) -- inlined
  if cost * times == 0 then
    return state
  end
  if state.counted == 0 then
    state.restarts = true
    state.sum, state.before, state.refunded, state.added = 0, 0, 0, 0
  end
  state.added = state.added + cost * times
  state.counted = state.counted + cost * times
  return state
end

local function chargeable(_, state)
  return max(0, MAX_PRODUCT - (state.counted == 0 and 0 or state.sum + state.added))
end

local function refund(limit, cost, charged_at, state)
  local over = charged_at and charged_at + state.offset + limit.window <= state.now
  if state.counted == 0 or over then
    return nil
  end
  local given = min(cost, state.counted)
  state.before = state.before + given
  state.counted = state.counted - given
  state.refunded = state.before
  return state
end

-- Adds the taken units as one entry, and removes entries that have left the window.
local function append(limit, state) -- inlined
  local key = state.key
  local at, sum, units, old = state.now, state.sum + state.added, state.added
  if state.restarts then
    if state.newest or state.stale then
      old = '' -- keeps the key while the entries, which may be on an old clock, are removed
      call('ZADD', key, '+inf', old)
      call('ZREMRANGEBYRANK', key, 0, -2)
    end
  else
    local size = state.size or call('ZCARD', key)
    local gone = call('ZCOUNT', key, '-inf', format('%d', state.now - limit.window))
    if gone > 0 then
      gone = min(gone, MAX_CLEARED)
      call('ZREMRANGEBYRANK', key, 0, gone - 1)
    end
    if state.newest == at or size - gone >= MAX_ENTRIES then
      units, old = units + state.units, state.member
    end
  end
  local member = pack_member(state, sum, units)
  replace(key, at, member, old)
  state.newest, state.member, state.sum, state.units = at, member, sum, units
  state.added, state.restarts = 0, nil
end

-- Removes `taken` units from the oldest entry in `later`, and subtracts them from the sums of all
-- entries in `later`.
local function shift(state, later, taken)
  local arguments, is_new, old = {}, {}, {}
  for i = 1, #later, 2 do
    local sum, units, offset, refunded = unpack_member(later[i])
    units = i == 1 and units - taken or units
    if units > 0 then
      local member = pack_member({ offset = offset, refunded = refunded }, sum - taken, units)
      arguments[#arguments + 1], arguments[#arguments + 2] = later[i + 1], member
      is_new[member] = true
    end
  end
  for i = 1, #later, 2 do
    if not is_new[later[i]] then
      old[#old + 1] = later[i]
    end
  end
  -- The new entries are added before the old ones are removed, for the reason given at `replace`.
  if #arguments > 0 then
    call('ZADD', state.key, unpack(arguments))
  end
  if #old > 0 then
    call('ZREM', state.key, unpack(old))
  end
end

-- y: when the units leave the window, on the store's clock. z: 0 if this time is not known exactly.
local function undo(limit, now, cost, _, y, z, state)
  local at = y - limit.window + state.offset
  if state.counted == 0 or at + limit.window <= state.now then
    return 0
  elseif z == 0 then
    return cost
  end
  if state.added > 0 then
    append(limit, state) -- so that the set has all units that this script call has taken
  end
  local later = call('ZRANGEBYSCORE', state.key, format('%d', at), '+inf', 'WITHSCORES', 'LIMIT', 0,
    MAX_SHIFTED + 1)
  if not later[2] or tonumber(later[2]) ~= at then
    return cost
  end
  local sum, units = unpack_member(later[1])
  local taken = min(cost, units)
  if #later / 2 > MAX_SHIFTED or state.refunded > sum - units then
    return 0, refund(limit, taken, false, state)
  end
  shift(state, later, taken)
  state.newest, state.member, state.sum, state.units = entry_at(state.key, -1)
  if not state.newest then
    local _, new = open(limit, now, state.key)
    return 0, new
  end
  state.counted = state.counted - taken
  return 0, state
end

local function snapshot(limit, cost, taken, now, state) -- inlined
  local reset_at, retry_at = now, now
  if cost * taken > 0 or state.counted > 0 then
    local newest = (cost * taken > 0 or state.added > 0) and state.now or state.newest
    reset_at = newest + limit.window - state.offset
  end
  local excess = state.counted + cost * taken + cost - limit.limit
  if cost <= limit.limit and excess > 0 then
    local time = time_of_unit(state, excess)
    retry_at = time + limit.window - state.offset
  end
  return state.counted, reset_at, retry_at
end

local function lifetime(limit, now, state) -- inlined
  local newest = state.added > 0 and state.now or state.newest or state.now
  return newest + limit.window - state.offset - now
end

local function write(limit, key, state, expiry) -- inlined
  if state.added > 0 then
    append(limit, state)
  elseif state.newest then
    local member = pack_member(state, state.sum, state.units)
    replace(key, state.newest, member, state.member)
  end
  call('PEXPIRE', key, expiry .. '000')
end

return {
  parse = parse, read = read, open = open, advance = advance, grants = grants, take = take,
  chargeable = chargeable, refund = refund, undo = undo, snapshot = snapshot, lifetime = lifetime,
  write = write,
}
