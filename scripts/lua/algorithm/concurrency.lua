-- Concurrency limit: at most `limit` slots are held at once, under leases.
-- The twin of src/core/algorithm/concurrency.h, which documents each function.
--
-- Parameters: limit; then min, latency (µs; 0: the limit is fixed), share: see
--             src/core/algorithm/adaptive_limit.h
-- Stored:     a sorted set with a member per slot held. Score: expiry of its lease (µs), on the
--             counter's own clock. Member: id of the lease (16 bytes), number of the slot in it (2
--             bytes, big-endian). The first member, at -inf, consists of two little-endian
--             doubles: time of the latest change, and the counter's clock minus the
--             store's. If the limit follows the load, this member has two more doubles: what the
--             limit has learned.
-- Cost:       2 calls to read; if slots are held, 2 more to answer, or 4 for a denial; 4 to 7 to
--             take. Of these 4 to 7, one adds a member per slot, and one removes expired slots: at
--             most MAX_CLEARED more slots than the check takes.
-- Atomic:     runs inside the driver's script. Writes immediately, so each check counts the slots
--             that earlier checks of the same script call have taken.

local MAX_COST = 256
local MAX_CLEARED = 64

-- As in adaptive_limit.h.
local SLOT, STEP, BRIEF, FIRST_RISE, KEPT = 1000000, 20000, 20, 5, 86400000000
-- The first number of a snapshot is the number of slots held + LIMIT_UNIT * the limit in force.
local LIMIT_UNIT = 4294967296

local function member(lease, slot) -- inlined
  return lease .. pack_numbers('>H', slot)
end

local function parse(algorithm, numbers, at) -- inlined
  return {
    algorithm = algorithm, limit = numbers[at], min = numbers[at + 1], latency = numbers[at + 2],
    share = numbers[at + 3],
  }
end

-- Returns the stored state; nil if nothing is stored, false if its format is unknown.
local function read(key) -- inlined
  local clock = call('ZRANGE', key, 0, 0)[1]
  if not clock then
    return nil
  elseif #clock ~= 16 and #clock ~= 32 then
    return false
  end
  local last, offset = unpack_numbers('<dd', clock)
  local learned, top
  if #clock == 32 then
    learned, top = unpack_numbers('<dd', clock, 17)
  end
  return { key = key, clock = clock, last = last, offset = offset, learned = learned, top = top }
end

local function open(_, now, key) -- inlined
  return nil, { key = key, last = now, offset = 0, now = now, counted = 0 }
end

local function advance(_, now, state) -- inlined
  local keep
  if now + state.offset < state.last - MAX_SKEW then
    state.offset = state.last - now
    keep = KEEP_ALWAYS
  end
  state.now = max(now + state.offset, state.last)
  state.counted = call('ZCOUNT', state.key, '(' .. format('%d', state.now), '+inf')
  if state.counted == 0 then
    local _, new = open(nil, now, state.key)
    -- The new state uses the store's clock. If the remaining slots expired on another clock,
    -- `clock` is nil, and `take` deletes the key.
    new.clock = state.offset == 0 and state.last <= now and state.clock or nil
    if state.now - state.last < KEPT then
      new.learned, new.top = state.learned, state.top
    end
    return nil, new
  end
  return keep, state
end

-- The limit in force, if it follows the load.
local function limit_now(limit, state) -- inlined
  return max(limit.min, min(limit.limit, floor((state.learned or 0) / SLOT)))
end

-- Moves the learned limit into the bounds, which may have changed after it was learned.
local function enter_bounds(limit, state) -- inlined
  local least, most = max(limit.min, 1) * SLOT, limit.limit * SLOT
  state.learned = max(least, min(most, state.learned))
  local peak = max(least, min(most, state.top < 0 and -state.top or state.top))
  state.top = state.top < 0 and -peak or peak
end

-- Moves the limit after holds have ended. `took`: how long they lasted. `too_slow`: whether the
-- work took too long. `slots`: the number of their slots. `held`: the number of all slots held
-- before they ended.
local function learn(limit, state, took, too_slow, slots, held) -- inlined
  local learned, top = state.learned, state.top
  if not learned then
    learned = max(limit.min, 1) * SLOT
    top = -learned
  end
  local busy = 5 * held >= 4 * max(limit.min, min(limit.limit, floor(learned / SLOT)))
  local rises, peak = top < 0, top < 0 and -top or top
  local step = floor(STEP * min(limit.latency, BRIEF * took) / limit.latency)
  step = step * slots * (rises and FIRST_RISE or 1)
  if too_slow then
    local down = floor(step * limit.share / (100 - limit.share))
    learned = min(learned, max(limit.min * SLOT, learned - down))
    rises = rises and learned >= floor(peak * 85 / 100) - 3 * SLOT
    if busy and not rises then
      peak = learned
    end
  else
    learned = max(learned, min(busy and limit.limit * SLOT or peak, learned + step))
    peak = max(peak, learned)
  end
  state.learned, state.top = learned, rises and -peak or peak
end

local function grants(limit, _, cost, n, state) -- inlined
  if cost > MAX_COST then
    return 0
  end
  local most = limit.limit
  if limit.latency > 0 then
    most = limit_now(limit, state)
  end
  return grants_within(most, state.counted, cost, n)
end

-- The time until the last slot has expired and the learned limit is forgotten. REQUIRES: the slots
-- have been written.
local function lifetime(_, _, state) -- inlined
  local newest = state.newest or call('ZRANGE', state.key, -1, -1, 'WITHSCORES')[2]
  local held = (not newest or newest == '-inf') and 0 or tonumber(newest) - state.now
  return state.learned and max(held, state.last + KEPT - state.now) or held
end

-- Writes the counter's clock, and the key's time to live. The new clock is written before the old
-- one is removed: while the key's slot of the Cluster migrates to another node, a key that has been
-- deleted cannot be written here again.
local function write(_, key, state, seconds) -- inlined
  local clock = state.learned
    and pack_numbers('<dddd', state.last, state.offset, state.learned, state.top)
    or pack_numbers('<dd', state.last, state.offset)
  call('ZADD', key, '-inf', clock)
  if state.clock and state.clock ~= clock then
    call('ZREM', key, state.clock)
  end
  state.clock = clock
  call('PEXPIRE', key, seconds .. '000')
end

-- CHARGE ignores the limit.
local function chargeable()
  return MAX_COST
end

local function hold(state, request, slots) -- inlined
  local arguments = {}
  local expires = format('%d', state.now + request.ttl)
  for slot = 0, slots - 1 do
    local name = member(request.lease, slot)
    arguments[#arguments + 1], arguments[#arguments + 2] = expires, name
  end
  call('ZADD', state.key, unpack(arguments))
  state.last = state.now
end

local function take(limit, cost, _, state, _, _, request) -- inlined
  if limit.latency > 0 and state.learned then
    enter_bounds(limit, state)
  end
  if state.counted == 0 then
    state.newest = state.now + request.ttl -- when the last slot expires
  end
  if state.counted == 0 and not state.clock then
    call('UNLINK', state.key) -- expired slots may be on an old clock
  else
    -- The clock's member precedes the expired slots.
    local gone = (state.size or call('ZCARD', state.key)) - state.counted - 1
    if gone > 0 then
      gone = min(gone, MAX_CLEARED + cost)
      call('ZREMRANGEBYRANK', state.key, 1, gone)
      if limit.latency > 0 then
        learn(limit, state, limit.latency, true, gone, state.counted + gone)
      end
    end
  end
  hold(state, request, cost)
  state.counted = state.counted + cost
  return state
end

local function slot_is_held(state, request, slot)
  if state.counted == 0 then
    return false
  end
  local expires = call('ZSCORE', state.key, member(request.lease, slot))
  return expires and tonumber(expires) > state.now
end

-- The slots of a lease are numbered from 0, and are taken and released together.
local function slots_of(state, request)
  local slots = 0
  while slot_is_held(state, request, slots) do
    slots = slots + 1
  end
  return slots
end

local function holds(state, request)
  return slot_is_held(state, request, 0)
end

local function renew(state, request)
  hold(state, request, slots_of(state, request))
  return state
end

-- Returns the change of the limit in force, and the state (nil if nothing was released).
local function release(limit, state, request)
  local members = {}
  for slot = 0, slots_of(state, request) - 1 do
    members[#members + 1] = member(request.lease, slot)
  end
  if #members == 0 then
    return 0
  end
  call('ZREM', state.key, unpack(members))
  local moved = 0
  if limit.latency > 0 and request.report then
    local taken, said = unpack_numbers('<dd', request.report, 25)
    local took = state.now - state.offset - taken
    if took >= 0 then
      said = said >= 0 and said or took
      local before = limit_now(limit, state)
      learn(limit, state, took, said > limit.latency, #members, state.counted)
      moved = limit_now(limit, state) - before
    end
  end
  state.counted = state.counted - #members
  state.last = state.now
  return moved, state
end

local function undo(limit, _, _, _, _, _, state, _, _, request)
  return release(limit, state, request)
end

-- The expiry of the nth held slot (from 1), in the order of expiry; nil if fewer slots are held.
local function expiry_of(state, nth) -- inlined
  local rank = (state.size or call('ZCARD', state.key)) - state.counted + nth - 1
  local found = call('ZRANGE', state.key, rank, rank, 'WITHSCORES')[2]
  return found and tonumber(found) - state.offset
end

local function snapshot(limit, cost, taken, now, state, request) -- inlined
  local reset_at, retry_at = now, now
  local most = limit.limit
  if limit.latency > 0 then
    most = limit_now(limit, state)
  end
  if state.counted > 0 then
    reset_at = expiry_of(state, 1)
  end
  if cost * taken > 0 then
    local expires = state.now + request.ttl - state.offset
    reset_at = state.counted > 0 and min(reset_at, expires) or expires
  elseif cost <= limit.limit and cost > most then
    retry_at = now + limit.latency -- the limit may have risen by then
  elseif cost <= limit.limit and state.counted + cost > most then
    retry_at = expiry_of(state, state.counted + cost - most)
  end
  return state.counted + most * LIMIT_UNIT, reset_at, retry_at
end

return {
  at_once = true, parse = parse, read = read, open = open, advance = advance, grants = grants,
  chargeable = chargeable, take = take, holds = holds, renew = renew, release = release, undo = undo,
  snapshot = snapshot, lifetime = lifetime, write = write,
}
