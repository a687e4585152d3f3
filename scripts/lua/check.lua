-- The driver: decides a pack of checks in one atomic run of one script.
--
-- KEYS      the counters, each named once
-- ARGV[1]   little-endian doubles:
--             version (1), time (µs since the epoch; 0: Redis' own clock),
--             number of limits, number of checks, then
--             per limit:  algorithm, number of its parameters, the parameters
--             per check:  n, cost, mode (1 consume, 2 peek), number of its counters, then
--                         per counter: index of its key, index of its limit, group
-- returns   { blob, message, … }; blob: little-endian doubles:
--             version (1), time of the decisions, then
--             per check:  0, then the grants of each of its groups, then per counter 3 numbers, its
--                         snapshot from before the check (see the algorithm's C++ header);
--                         or, alone, the index of the message that says why it failed
-- cost      one TIME, one MGET, one SET per counter charged, one EXISTS per new counter; more where
--           an algorithm's file says so
-- atomic    Redis runs a script without interleaving. Every check is decided in memory and all
--           counters are written at the end, where the first write either fails, with nothing
--           written, or all succeed.
--
-- A check is a run of n equal requests: the first g of them are granted, as n calls one after the
-- other would be. Group 0 holds the enforced limits, all of which must grant; each further group is
-- a shadow rule, charged for those requests that both it and group 0 grant. Without group 0, all
-- are granted.

local VERSION = 1
local CONSUME, PEEK = 1, 2

local MODULES = { [1] = 'fixed_window', [2] = 'sliding_log', [4] = 'token_bucket' }

-- Most algorithms keep a counter as a string: this number, then its fields as little-endian
-- doubles. One that keeps it otherwise has a read and a write of its own.
local FORMAT = 1
local LAYOUT = { [2] = '<Bdd', [3] = '<Bddd' }

local algorithms = {}
local function algorithm(id)
  if not algorithms[id] then
    algorithms[id] = modules[MODULES[id]]()
    algorithms[id].layout = LAYOUT[algorithms[id].fields]
  end
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

local function read_string(k, layout)
  local value = strings[k]
  if not value then
    -- To write over what is no string would lose somebody's data.
    if redis.call('EXISTS', KEYS[k]) == 1 then
      error('the key holds a value of another type: ' .. KEYS[k], 0)
    end
    return nil
  end
  if #value ~= struct.size(layout) or value:byte() ~= FORMAT then
    error('the key holds a counter of an unknown format: ' .. KEYS[k], 0)
  end
  return { select(2, struct.unpack(layout, value)) }
end

local function read(k, limit)
  local kind = limit.algorithm
  local state = states[k]
  if not state then
    if kind.read then
      state = kind.read(KEYS[k])
    else
      state = read_string(k, kind.layout)
    end
    if not state then
      return kind.open(limit, now, KEYS[k])
    end
    states[k] = state
  end
  return kind.advance(limit, state, now)
end

local function write(k, limit)
  local state = states[k]
  local milliseconds = math.ceil(limit.algorithm.lifetime(limit, state, now) / 1000) + 1000
  if limit.algorithm.write then
    limit.algorithm.write(limit, KEYS[k], state, milliseconds)
  else
    redis.call('SET', KEYS[k], struct.pack(limit.algorithm.layout, FORMAT, unpack(state)),
      'PX', milliseconds)
  end
end

-- Appends the grants of each group, then the snapshot of each counter. Everything that can fail
-- comes before the first change.
local function decide(first, out)
  local n, cost, mode, count = numbers[first], numbers[first + 1], numbers[first + 2],
    numbers[first + 3]
  local drafts, keeps, snapshots = {}, {}, {}
  for i = 1, count do
    local counter = first + 1 + 3 * i
    drafts[i], keeps[i] = read(numbers[counter], limits[numbers[counter + 1]])
  end

  local allowed = n
  local i = 1
  while i <= count do
    local begin = i
    local group = numbers[first + 3 + 3 * i]
    -- Equal requests that only look all see the same.
    local granted = mode == PEEK and math.min(allowed, 1) or allowed
    repeat
      local limit = limits[numbers[first + 2 + 3 * i]]
      granted = limit.algorithm.grants(limit, drafts[i], cost, granted)
      i = i + 1
    until i > count or numbers[first + 3 + 3 * i] ~= group
    if mode == PEEK then
      granted = granted * allowed
    end
    if group == 0 then
      allowed = granted
    end
    out[#out + 1] = granted
    local taken = mode == CONSUME and granted or 0
    for j = begin, i - 1 do
      local k, limit = numbers[first + 1 + 3 * j], limits[numbers[first + 2 + 3 * j]]
      local kind = limit.algorithm
      snapshots[j] = { kind.snapshot(limit, drafts[j], cost, taken, now) }
      if taken > 0 and cost > 0 then
        states[k] = kind.take(limit, drafts[j], cost, taken)
        changed_by[k] = limit
      elseif keeps[j] == KEEP_ALWAYS or (keeps[j] == KEEP_UNLESS_PEEK and mode ~= PEEK) then
        states[k] = drafts[j]
        changed_by[k] = limit
      end
    end
  end
  for j = 1, count do
    for field = 1, 3 do
      out[#out + 1] = snapshots[j][field] or 0
    end
  end
end

local out = { VERSION, now }
local reply = { '' }
for _ = 1, numbers[4] do
  local status = #out + 1
  out[status] = 0
  local ok, message = pcall(decide, at, out)
  if not ok then
    -- Redis 7 raises tables, and so might a command of ours.
    reply[#reply + 1] = type(message) == 'table' and message.err or message
    for surplus = #out, status + 1, -1 do
      out[surplus] = nil
    end
    out[status] = #reply - 1
  end
  at = at + 4 + 3 * numbers[at + 3]
end

for k, limit in pairs(changed_by) do
  write(k, limit)
end

reply[1] = struct.pack('<' .. string.rep('d', #out), unpack(out))
return reply
