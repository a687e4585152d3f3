-- The driver: decides a pack of checks in one atomic run of one script.
--
-- KEYS      the counters, each named once
-- ARGV[1]   little-endian doubles:
--             version (2), time (µs since the epoch; 0: Redis' own clock),
--             number of limits, number of checks, then
--             per limit:  algorithm, number of its parameters, the parameters
--             per check:  n, cost, mode (see below), longest wait (µs) or for a refund the time of
--                         the charge (µs since the epoch; -1: none), index of its lease in
--                         ARGV[2...] (0: none), number of its counters, then
--                         per counter: index of its key, index of its limit, group
-- ARGV[2]…  leases: 16 bytes of id, ttl (µs) as a little-endian double
-- returns   { blob, message, … }; blob: little-endian doubles:
--             version (2), time of the decisions, then
--             per check:  0, then the grants of each of its groups, then per counter 3 numbers, its
--                         snapshot from before the check (see the algorithm's C++ header); in modes
--                         3 to 6 instead whether it was admitted (0, 1), units dropped, and its
--                         snapshot from after the check;
--                         or, alone, the index of the message that says why it failed
-- cost      one TIME, one MGET, one SET per counter charged, one EXISTS per new counter; more where
--           an algorithm's file says so
-- atomic    Redis runs a script without interleaving. Checks are decided in memory and the counters
--           written at the end, but for those that an algorithm writes itself. The script's first
--           write either fails, with nothing written, or all succeed.
--
-- A check is a run of n equal requests: the first g of them are granted, as n calls one after the
-- other would be. Group 0 holds the enforced limits, all of which must grant; each further group is
-- a shadow rule, charged for those requests that both it and group 0 grant. Without group 0, all
-- are granted. In modes 3 to 6, n is 1 and groups make no difference to what is changed.

local VERSION = 2
-- CHARGE takes the cost even where it is denied; REFUND gives it back. RENEW and RELEASE concern the
-- check's lease, and RENEW happens only if all counters hold it.
local CONSUME, PEEK, CHARGE, REFUND, RENEW, RELEASE = 1, 2, 3, 4, 5, 6

local MODULES = {
  [1] = 'fixed_window', [2] = 'sliding_log', [3] = 'sliding_window', [4] = 'token_bucket',
  [5] = 'leaky_bucket', [6] = 'concurrency', [7] = 'warming_bucket',
}

-- Most algorithms keep a counter as a string: this number, then its fields as little-endian
-- doubles; `fields` says how many, unless their number varies. One that keeps it otherwise has a
-- read of its own, and either a write for the end of the run or takes, renews and releases at once.
local FORMAT = 1

local algorithms = {}
local function algorithm(id)
  algorithms[id] = algorithms[id] or modules[MODULES[id]]()
  return algorithms[id]
end

local numbers = { struct.unpack('<' .. string.rep('d', #ARGV[1] / 8), ARGV[1]) }
if numbers[1] ~= VERSION then
  return redis.error_reply('SLUICE the script and its caller are of different versions')
end

local now = numbers[2]
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local at = 5
local limits = {}
for i = 1, numbers[3] do
  local limit = { algorithm = algorithm(numbers[at]) }
  limit.algorithm.parse(limit, numbers, at + 2)
  limits[i] = limit
  at = at + 2 + numbers[at + 1]
end

-- By index into KEYS: the strings Redis holds, and the states as of this run once they are known.
local strings = redis.call('MGET', unpack(KEYS))
local states = {}
local changed_by = {} -- the limit whose lifetime the changed counter gets

local layouts = {}
local function layout(fields)
  layouts[fields] = layouts[fields] or '<B' .. string.rep('d', fields)
  return layouts[fields]
end

local function read_string(k, fields)
  local value = strings[k]
  if not value then
    -- To write over what is no string would lose somebody's data.
    if redis.call('EXISTS', KEYS[k]) == 1 then
      error('the key holds a value of another type: ' .. KEYS[k], 0)
    end
    return nil
  end
  fields = fields or math.floor(#value / 8)
  if #value ~= 1 + 8 * fields or value:byte() ~= FORMAT then
    error('the key holds a counter of an unknown format: ' .. KEYS[k], 0)
  end
  local state = { select(2, struct.unpack(layout(fields), value)) }
  state[fields + 1] = nil -- where unpacking has stopped
  return state
end

local function read(k, limit)
  local kind = limit.algorithm
  local state = states[k]
  if not state then
    if kind.read then
      state = kind.read(KEYS[k])
    else
      state = read_string(k, kind.fields)
    end
    if not state then
      return kind.open(limit, now, KEYS[k])
    end
    if not kind.at_once then
      states[k] = state
    end
  end
  return kind.advance(limit, state, now)
end

local function change(k, limit, state)
  if limit.algorithm.at_once then
    limit.algorithm.write(limit, KEYS[k], state)
  else
    states[k] = state
    changed_by[k] = limit
  end
end

local function write(k, limit)
  local state = states[k]
  local milliseconds = math.ceil(limit.algorithm.lifetime(limit, state, now) / 1000) + 1000
  if limit.algorithm.write then
    limit.algorithm.write(limit, KEYS[k], state, milliseconds)
  else
    redis.call('SET', KEYS[k], struct.pack(layout(#state), FORMAT, unpack(state)),
      'PX', milliseconds)
  end
end

-- A check's header in `numbers`, and where its counters begin.
local function parse_check(first)
  local check = {
    n = numbers[first], cost = numbers[first + 1], mode = numbers[first + 2],
    time = numbers[first + 3], count = numbers[first + 5],
  }
  if check.mode ~= REFUND then
    check.max_wait = check.time
  end
  local lease = numbers[first + 4]
  if lease > 0 then
    check.lease = ARGV[1 + lease]:sub(1, 16)
    check.ttl = struct.unpack('<d', ARGV[1 + lease], 17)
  end
  return check, first + 6
end

-- Appends the grants of each group, then the snapshot of each counter. Everything that can fail
-- comes before the first change.
local function decide(check, first, out)
  local cost, mode, count = check.cost, check.mode, check.count
  local drafts, keeps, snapshots = {}, {}, {}
  for i = 1, count do
    local counter = first + 3 * (i - 1)
    drafts[i], keeps[i] = read(numbers[counter], limits[numbers[counter + 1]])
  end

  local allowed = check.n
  local i = 1
  while i <= count do
    local begin = i
    local group = numbers[first + 3 * i - 1]
    -- Equal requests that only look all see the same.
    local granted = mode == PEEK and math.min(allowed, 1) or allowed
    repeat
      local limit = limits[numbers[first + 3 * i - 2]]
      granted = limit.algorithm.grants(limit, drafts[i], check, granted)
      i = i + 1
    until i > count or numbers[first + 3 * i - 1] ~= group
    if mode == PEEK then
      granted = granted * allowed
    end
    if group == 0 then
      allowed = granted
    end
    out[#out + 1] = granted
    local taken = mode == CONSUME and granted or 0
    for j = begin, i - 1 do
      local k, limit = numbers[first + 3 * j - 3], limits[numbers[first + 3 * j - 2]]
      local kind = limit.algorithm
      snapshots[j] = { kind.snapshot(limit, drafts[j], cost, taken, now, check) }
      if taken > 0 and cost > 0 then
        change(k, limit, kind.take(limit, drafts[j], cost, taken, check))
      elseif keeps[j] == KEEP_ALWAYS or (keeps[j] == KEEP_UNLESS_PEEK and mode ~= PEEK) then
        change(k, limit, drafts[j])
      end
    end
  end
  for j = 1, count do
    for field = 1, 3 do
      out[#out + 1] = snapshots[j][field] or 0
    end
  end
end

-- Modes 3 to 6. Appends what each group admits, then what became of each counter.
local function decide_change(check, first, out)
  local cost, mode, count = check.cost, check.mode, check.count
  local drafts, keeps, admitted = {}, {}, {}
  local all_admit = true
  for i = 1, count do
    local counter = first + 3 * (i - 1)
    local limit = limits[numbers[counter + 1]]
    drafts[i], keeps[i] = read(numbers[counter], limit)
    admitted[i] = 1
    if mode == CHARGE then
      admitted[i] = limit.algorithm.grants(limit, drafts[i], check, 1)
    elseif mode == RENEW then
      admitted[i] = limit.algorithm.holds(limit, drafts[i], check) and 1 or 0
    end
    local group = numbers[counter + 2]
    if i > 1 and numbers[counter - 1] == group then
      out[#out] = math.min(out[#out], admitted[i])
    else
      out[#out + 1] = admitted[i]
    end
    all_admit = all_admit and (admitted[i] == 1 or group > 0)
  end

  for i = 1, count do
    local counter = first + 3 * (i - 1)
    local k, limit = numbers[counter], limits[numbers[counter + 1]]
    local kind = limit.algorithm
    local state, dropped = nil, 0 -- no state: unchanged
    if mode == CHARGE then
      local charged = math.min(cost, kind.chargeable(limit, drafts[i]))
      state = charged > 0 and kind.take(limit, drafts[i], charged, 1, check) or nil
      dropped = cost - charged
    elseif mode == REFUND then
      state = kind.refund(limit, drafts[i], cost, check.time)
    elseif mode == RELEASE then
      state = kind.release(limit, drafts[i], check)
    elseif all_admit then
      state = kind.renew(limit, drafts[i], check)
    end
    if state or keeps[i] ~= KEEP_NO then
      state = state or drafts[i]
      change(k, limit, state)
    end
    local a, b, c = kind.snapshot(limit, state or drafts[i], cost, 0, now, check)
    out[#out + 1] = admitted[i]
    out[#out + 1] = dropped
    out[#out + 1] = a
    out[#out + 1] = b
    out[#out + 1] = c or 0
  end
end

local out = { VERSION, now }
local reply = { '' }
for _ = 1, numbers[4] do
  local status = #out + 1
  out[status] = 0
  local check, counters = parse_check(at)
  local looks = check.mode == CONSUME or check.mode == PEEK
  local ok, message = pcall(looks and decide or decide_change, check, counters, out)
  if not ok then
    -- Redis 7 raises tables, and so might a command of ours.
    reply[#reply + 1] = type(message) == 'table' and message.err or message
    for surplus = #out, status + 1, -1 do
      out[surplus] = nil
    end
    out[status] = #reply - 1
  end
  at = counters + 3 * check.count
end

for k, limit in pairs(changed_by) do
  write(k, limit)
end

reply[1] = struct.pack('<' .. string.rep('d', #out), unpack(out))
return reply
