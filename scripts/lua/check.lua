-- The driver: decides a pack of checks in one atomic run of one script.
--
-- KEYS      the counters, each named once
-- ARGV[1]   little-endian doubles:
--             version (3), time (µs since the epoch; 0: Redis' own clock),
--             number of limits, number of requests, number of checks, then
--             per limit:    algorithm, number of its parameters, the parameters
--             per request:  what checks may ask for alike: cost, mode (see below), longest wait
--                           (µs) or for a refund the time of the charge (µs since the epoch; -1:
--                           none), whether under a lease (0, 1), number of counters, then
--                           per counter: index of its limit, group
--             per check:    index of its request, n, then per counter the index of its key
-- ARGV[2]…  leases, in the order of the checks that have one: 16 bytes of id, ttl (µs) as a
--           little-endian double
-- returns   { blob, message, … }; blob: little-endian doubles:
--             version (3), time of the decisions, then
--             per check:  for each of its groups its grants, then per counter of the group 3
--                         numbers, its snapshot from before the check (see the algorithm's C++
--                         header); in modes 3 to 6 instead whether it was admitted (0, 1), units
--                         dropped, and its snapshot from after the check;
--                         or, alone, minus the index of the message that says why it failed
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
--
-- Redis runs this for every pack, and its checks one after the other, so both count: what is defined
-- here is defined for each pack anew, and what a check needs is kept in tables made once.

local VERSION = 3
-- CHARGE takes the cost even where it is denied; REFUND gives it back. RENEW and RELEASE concern the
-- check's lease, and RENEW happens only if all counters hold it.
local CONSUME, PEEK, CHARGE, REFUND, RENEW, RELEASE = 1, 2, 3, 4, 5, 6

-- Most algorithms keep a counter as a string: this number, then its fields as little-endian
-- doubles; `fields` says how many, unless their number varies. One that keeps it otherwise has a
-- read of its own, and either a write for the end of the run or takes, renews and releases at once.
local FORMAT = 1

local LAYOUTS_TO_READ = { [2] = '<dd', [3] = '<ddd' }
local LAYOUTS_TO_WRITE = { [2] = '<Bdd', [3] = '<Bddd' }

local keys = KEYS

local numbers = { struct.unpack('<' .. rep('d', #ARGV[1] / 8), ARGV[1]) }
if numbers[1] ~= VERSION then
  return redis.error_reply('SLUICE the script and its caller are of different versions')
end

local now = numbers[2]
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local at = 6
local algorithms = {}
local limits = {}
for i = 1, numbers[3] do
  local id = numbers[at]
  local kind = algorithms[id] or modules[id]()
  algorithms[id] = kind
  limits[i] = { algorithm = kind }
  kind.parse(limits[i], numbers, at + 2)
  at = at + 2 + numbers[at + 1]
end

local requests = {}
for i = 1, numbers[4] do
  local request = {
    cost = numbers[at], mode = numbers[at + 1], leased = numbers[at + 3] == 1,
    count = numbers[at + 4], limits = {}, groups = {},
  }
  local time = numbers[at + 2]
  if request.mode == REFUND then
    request.charged_at = time >= 0 and time or nil
  else
    request.max_wait = time >= 0 and time or nil
  end
  at = at + 5
  for j = 1, request.count do
    request.limits[j], request.groups[j] = limits[numbers[at]], numbers[at + 1]
    at = at + 2
  end
  requests[i] = request
end

-- By index into KEYS: the strings Redis holds, and the states that this run has changed.
local strings = call('MGET', unpack(keys))
local states = {}
local changed_by = {} -- the limit whose lifetime the changed counter gets

local function read_string(k, fields)
  local value = strings[k]
  if not value then
    -- To write over what is no string would lose somebody's data.
    if call('EXISTS', keys[k]) == 1 then
      error('the key holds a value of another type: ' .. keys[k], 0)
    end
    return nil
  end
  fields = fields or floor(#value / 8)
  if #value ~= 1 + 8 * fields or value:byte() ~= FORMAT then
    error('the key holds a counter of an unknown format: ' .. keys[k], 0)
  end
  local state = { struct.unpack(LAYOUTS_TO_READ[fields] or '<' .. rep('d', fields), value, 2) }
  state[fields + 1] = nil -- where unpacking has stopped
  return state
end

local function change(k, limit, state)
  if limit.algorithm.at_once then
    limit.algorithm.write(limit, keys[k], state)
  else
    states[k] = state
    changed_by[k] = limit
  end
end

local function copy(state)
  if state[1] then
    return { unpack(state) }
  end
  local new = {}
  for name, value in pairs(state) do
    new[name] = value
  end
  return new
end

-- The counter's state as of now, the caller's to change: of a check that takes nothing, none of it
-- remains.
local function read(k, limit, mode)
  local kind = limit.algorithm
  local state, keep = states[k], nil
  if state then
    state = copy(state)
  elseif kind.read then
    state = kind.read(keys[k])
  else
    state = read_string(k, kind.fields)
  end
  if state then
    state, keep = kind.advance(limit, state, now)
  else
    state, keep = kind.open(limit, now, keys[k])
  end
  if keep == KEEP_ALWAYS or (keep == KEEP_UNLESS_PEEK and mode ~= PEEK) then
    change(k, limit, state)
  end
  return state
end

local expiries = {} -- seconds, as text
local function write(k, limit)
  local kind, state = limit.algorithm, states[k]
  local seconds = ceil(kind.lifetime(limit, state, now) / 1000000) + 1
  local expiry = expiries[seconds]
  if not expiry then
    expiry = string.format('%d', seconds)
    expiries[seconds] = expiry
  end
  if kind.write then
    kind.write(limit, keys[k], state, expiry)
  else
    local layout = LAYOUTS_TO_WRITE[#state] or '<B' .. rep('d', #state)
    call('SET', keys[k], struct.pack(layout, FORMAT, unpack(state)), 'EX', expiry)
  end
end

local out = { VERSION, now }
local length = 2
local drafts = {}

-- Appends for each group its grants, then the snapshot of each counter. What can fail comes before
-- the first change.
local function decide(request, n, first_key)
  local cost, mode, count = request.cost, request.mode, request.count
  local limits, groups = request.limits, request.groups
  for i = 1, count do
    drafts[i] = read(numbers[first_key + i - 1], limits[i], mode)
  end

  local allowed = n
  local i = 1
  while i <= count do
    local begin, group = i, groups[i]
    -- Equal requests that only look all see the same.
    local granted = mode == PEEK and min(allowed, 1) or allowed
    repeat
      granted = limits[i].algorithm.grants(limits[i], drafts[i], request, granted)
      i = i + 1
    until groups[i] ~= group
    if mode == PEEK then
      granted = granted * allowed
    end
    if group == 0 then
      allowed = granted
    end
    local taken = mode == CONSUME and granted or 0
    local at = length + 1
    out[at] = granted
    for j = begin, i - 1 do
      local limit, draft = limits[j], drafts[j]
      local kind = limit.algorithm
      out[at + 1], out[at + 2], out[at + 3] = kind.snapshot(limit, draft, cost, taken, now, request)
      at = at + 3
      if taken > 0 and cost > 0 then
        change(numbers[first_key + j - 1], limit, kind.take(limit, draft, cost, taken, request))
      end
    end
    length = at
  end
end

-- Makes the change that modes 3 to 6 ask of a counter: its state (nothing if there is none to make),
-- and how many units of the cost had no room.
local function changed(request, limit, state, all_admit)
  local cost, mode, kind = request.cost, request.mode, limit.algorithm
  if mode == CHARGE then
    local charged = min(cost, kind.chargeable(limit, state))
    return charged > 0 and kind.take(limit, state, charged, 1, request) or nil, cost - charged
  elseif mode == REFUND then
    return kind.refund(limit, state, cost, request.charged_at), 0
  elseif mode == RELEASE then
    return kind.release(limit, state, request), 0
  end
  return all_admit and kind.renew(limit, state, request) or nil, 0
end

-- Modes 3 to 6. Appends for each group what it admits, then what became of each counter.
local function decide_change(request, _, first_key)
  local mode, count, limits, groups = request.mode, request.count, request.limits, request.groups
  local admitted, group_admits, all_admit = {}, {}, true
  for i = 1, count do
    local limit, group = limits[i], groups[i]
    drafts[i] = read(numbers[first_key + i - 1], limit, mode)
    admitted[i] = 1
    if mode == CHARGE then
      admitted[i] = limit.algorithm.grants(limit, drafts[i], request, 1)
    elseif mode == RENEW then
      admitted[i] = limit.algorithm.holds(limit, drafts[i], request) and 1 or 0
    end
    group_admits[group] = min(group_admits[group] or 1, admitted[i])
    all_admit = all_admit and (admitted[i] == 1 or group > 0)
  end

  local at = length
  for i = 1, count do
    local limit, draft = limits[i], drafts[i]
    local state, dropped = changed(request, limit, draft, all_admit)
    if state then
      change(numbers[first_key + i - 1], limit, state)
    end
    if groups[i] ~= groups[i - 1] then
      at = at + 1
      out[at] = group_admits[groups[i]]
    end
    out[at + 1], out[at + 2] = admitted[i], dropped
    out[at + 3], out[at + 4], out[at + 5] =
      limit.algorithm.snapshot(limit, state or draft, request.cost, 0, now, request)
    at = at + 5
  end
  length = at
end

local reply = { '' }
local leases = 0
for _ = 1, numbers[5] do
  local request = requests[numbers[at]]
  if request.leased then
    leases = leases + 1
    local lease = ARGV[1 + leases]
    request.lease, request.ttl = lease:sub(1, 16), struct.unpack('<d', lease, 17)
  end
  local begin = length
  local looks = request.mode == CONSUME or request.mode == PEEK
  local ok, message = pcall(looks and decide or decide_change, request, numbers[at + 1], at + 2)
  if not ok then
    -- Redis 7 raises tables, and so might a command of ours.
    reply[#reply + 1] = type(message) == 'table' and message.err or message
    length = begin + 1
    out[length] = 1 - #reply
  end
  at = at + 2 + request.count
end

for k, limit in pairs(changed_by) do
  write(k, limit)
end

reply[1] = struct.pack('<' .. rep('d', length), unpack(out, 1, length))
return reply
