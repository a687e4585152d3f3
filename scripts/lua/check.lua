-- The driver: decides a pack of checks atomically in one script call.
--
-- KEYS      the counters, without duplicates, then the records of leases (record.lua). Or KEYS is
--           empty, and ARGV starts with the counters, which may then be in any slots that this node
--           of a Cluster owns. If there are records, all keys are in KEYS
-- ARGV…     leases, in the order of the checks that have one: 16 bytes of id, then little-endian
--           doubles: ttl (µs); in mode 6, if a limit is to learn from the hold: when the slots
--           were taken (µs), and for how long the caller reports to have held them (µs; -1: it
--           reports no time)
-- last ARGV little-endian doubles:
--             version (10), time (µs since the epoch; 0: Redis' own clock),
--             number of limits if lone.lua may decide the call, else 0,
--             number of limits, number of requests, number of checks, number of counters, index of
--             the first limit, then
--             per request (checks with equal values share one):
--                           mode (constants.lua), longest wait w
--                           (µs; -2 - w: only leaky buckets may delay the check) or, for a
--                           refund, the time of the charge (µs since the epoch); -1: none,
--                           lease: 0 none, 1 without records, 2 with records (of units), 3 none,
--                           but the check takes or returns grants (grants.lua); number of counters,
--                           then
--                           per counter: index of its limit, group
--             per check:    index of its request, n, then per counter the index of its key, then
--                           per counter its units. In mode 7, then per counter the 3 numbers of the
--                           snapshot that the check to undo found. If the lease is 2, then per
--                           counter the number of its record; in mode 6 of such a lease, the units
--                           are the units used (-1: as many as taken). If the lease is 3, then per
--                           counter the grant that is returned (generation, units granted, units
--                           unused; or three 0) and the grant that is wanted (units, longest life
--                           in µs; or two 0)
--             per limit:    algorithm, number of its parameters, the parameters
--             zeros, so that at least five numbers follow the last limit's number of parameters
-- returns   { blob, error message, … }, or the blob alone; blob: little-endian doubles:
--             version (10), time of the decisions, then
--             per check:  for each of its groups how many checks the group grants, then per counter
--                         of the group its snapshot from before the check: 3 numbers (see the
--                         algorithm's C++ header). In modes 3 to 8, except coalesced charges, a
--                         counter has instead: whether it admits (0, 1), units dropped (mode 6 of
--                         slots: by how much the limit in force has risen), its snapshot from
--                         after the check.
--                         For lease 2 in these modes, see decide_record in record.lua.
--                         For lease 3, then per counter the grant (units, its generation, its life)
--                         and the units that are out (grants.lua).
--                         If the check failed: only the negative index of its error message
-- cost      one TIME, one MGET, one SETRANGE or SET per counter charged, one EXISTS if any counter
--           is new; for counters in ARGV one GET each instead of MGET and EXISTS; more where an
--           algorithm's file, decide.lua or record.lua says so, and for more than 4,000 counters
-- atomic    Redis runs a script without interleaving. Checks are decided in memory, and counters
--           are written at the end, except where an algorithm writes at once. If the script's first
--           write fails, nothing is written; if it succeeds, all others succeed. If a counter in
--           ARGV is not on this node, this is found before the first write, and only the checks
--           that use the counter fail.
--
-- A check in ARGV stands for n equal checks. The first g of them are granted, as if they were n
-- consecutive calls. Group 0 has the enforced limits, all of which must grant. Each further group
-- is a shadow rule; it is charged for the checks that both this group and group 0 grant. If group 0
-- has no limits, it grants all checks. In modes 3 to 8, each counter is changed whatever the other
-- counters admit, except in RENEW; and n is 1, with one exception: if a charge has no lease and one
-- counter, whose algorithm has `charge`, it may stand for n equal charges. All n are charged, and g
-- of them are within the limit.
--
-- Performance: Redis runs the whole file for every pack, so each definition here costs time per
-- pack, and the loop costs time per check. Tables are the most expensive, so a state is passed as
-- separate fields.

-- How many numbers a check has for each of its counters, by the kind of the check's lease.
local WIDTHS = { [0] = 2, 2, 3, 7 }
local LAYOUTS = { [2] = '<BI3dd', [3] = '<BI3ddd' } -- by the number of fields

local numbers = unpack_doubles(ARGV[#ARGV])
if numbers[1] ~= VERSION then
  return redis.error_reply('SLUICE the script and its caller are of different versions')
end

local now = numbers[2]
local knows_time = now == 0 -- then `now` is on the clock by which Redis expires keys
if knows_time then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local key_count = numbers[7]
local declared = #KEYS > 0
local keys = declared and KEYS or ARGV

local at = numbers[8]
local algorithms = {}
local limits = {}
for i = 1, numbers[4] do
  local id = numbers[at]
  local kind = algorithms[id] or algorithm(id)
  algorithms[id] = kind
  limits[i] = kind:parse(numbers, at + 2)
  at = at + 2 + numbers[at + 1]
end

at = 9
local requests = {}
local reads_records = false -- a check of mode CONSUME writes records but reads none
for i = 1, numbers[5] do
  local mode, time, count = numbers[at], numbers[at + 1], numbers[at + 3]
  local request = {
    mode = mode, leased = numbers[at + 2] % 3 > 0, count = count,
    recorded = numbers[at + 2] == 2, grants = numbers[at + 2] == 3,
    numbers = (mode == UNDO and 5 or WIDTHS[numbers[at + 2]]) * count, -- per check
    max_wait = mode ~= REFUND and time >= 0 and time,
    max_delay = mode ~= REFUND and time ~= -1 and (time >= 0 and time or -2 - time),
    charged_at = mode == REFUND and time >= 0 and time,
    limits = {}, groups = {}, lease = false, ttl = false,
    is_plain = mode == CONSUME and numbers[at + 2] % 2 == 0,
  }
  at = at + 4
  for j = 1, count do
    local limit, group = limits[numbers[at]], numbers[at + 1]
    request.limits[j], request.groups[j] = limit, group
    request.is_plain = request.is_plain and group == 0 and limit.algorithm.fields
    at = at + 2
  end
  reads_records = reads_records or request.recorded and mode ~= CONSUME
  if mode == CHARGE and count == 1 and not request.leased then
    request.charge = request.limits[1].algorithm.charge
    request.is_plain = request.charge
  end
  requests[i] = request
end

-- All by index into `keys`. strings: as found in Redis; expiries: of the keys. changed_by and
-- state_*: the limit that changed the counter last in this call, and the counter's state.
-- lifetimes: how long the key must live (µs), if it must live longer than it does.
local strings, expiries = nil, {}
local changed_by, state_a, state_b, state_c, lifetimes = {}, {}, {}, {}, {}
local second = floor(now / 1000000)
local out = { VERSION, now }
local length = 2
local reply = { '' }

-- Another limit may have written the counter's state, for a shorter time because its rate differs.
-- If `limit` needs the state for longer, notes how long the key must live.
local function prolong(k, limit, a, b, c)
  local kind, expiry = limit.algorithm, expiries[k]
  if kind.lifetime_varies and (expiry or changed_by[k]) then
    local lifetime = kind.lifetime(limit, now, a, b, c)
    local left = expiry and expiry > 0 and (expiry - second) % EXPIRY_MODULUS or 0
    if lifetime > (left - 1) * 1000000 or left > EXPIRY_MODULUS / 2 then
      lifetimes[k] = max(lifetimes[k] or 0, lifetime)
    end
  end
end

-- Fast path: most checks use enforced limits only, with counters stored as numbers. The loop below
-- decides them as `decide` would, but without the work that only other checks need. This saves a
-- fourth of Redis' time. If a counter has unexpected contents, the loop leaves the check to
-- `decide`.
local are_new -- whether all keys without a string are absent; nil: not known yet
local elsewhere -- by index, why a counter cannot be read on this node; nil: all can be read
local decide, decide_change, run, enter, decide_record
local leases = declared and 0 or key_count -- index into ARGV just before the next lease
if declared then
  strings = read_strings(keys, reads_records and #keys or key_count)
else
  strings, are_new, elsewhere = read_one_by_one(keys, key_count)
end

-- Makes `run`, `decide` and `decide_change`, which the fast path does not need.
local function prepare()
  run = {
    keys = keys, numbers = numbers, now = now, strings = strings, expiries = expiries,
    changed_by = changed_by, state_a = state_a, state_b = state_b, state_c = state_c,
    prolong = prolong, out = out, settled = {},
  }
  decide, decide_change = deciders(run)
end

local function read_lease(request)
  leases = leases + 1
  local lease = ARGV[leases]
  request.lease, request.ttl = lease:sub(1, 16), unpack_numbers('<d', lease, 17)
  request.report = #lease > 24 and lease
end

local request, count, width, asked, is_plain, charge, recorded
for _ = 1, numbers[6] do
  local next_request, n, first_key = requests[numbers[at]], numbers[at + 1], at + 2
  if next_request ~= request then
    request = next_request
    count, width = request.count, request.numbers
    asked, is_plain, charge = request.limits, request.is_plain, request.charge
    recorded = request.recorded
    if not enter and recorded then
      if not decide then
        prepare()
      end
      enter, decide_record = recorders(run)
    end
  end
  at = first_key + width

  local foreign = elsewhere and first_of(elsewhere, numbers, first_key, count)
  local granted, place = n, length + 2
  local costs = first_key + count - 1 -- just before the first cost
  for i = 1, is_plain and not foreign and count or 0 do
    local k, limit = numbers[first_key + i - 1], asked[i]
    local kind, value, keep, a, b, c = limit.algorithm, strings[k]
    if changed_by[k] then
      if changed_by[k] ~= limit or run and run.grants and run.grants[k] then
        break
      end
      keep, a, b, c = kind.advance(limit, now, state_a[k], state_b[k], state_c[k])
    elseif value then
      local version
      if #value == HEADER + 8 * kind.fields then
        version, expiries[k], a, b, c = unpack_numbers(LAYOUTS[kind.fields], value)
      end
      if version ~= FORMAT then
        break
      end
      keep, a, b, c = kind.advance(limit, now, a, b, c)
    else
      if are_new == nil then
        local without_string = {}
        for j = 1, key_count do
          if not strings[j] then
            without_string[#without_string + 1] = keys[j]
          end
        end
        are_new = not any_exists(without_string)
      end
      if not are_new then
        break
      end
      keep, a, b, c = kind.open(limit, now)
    end
    if keep then
      break
    end
    granted = kind.grants(limit, request, numbers[costs + i], granted, a, b, c)
    out[place], out[place + 1], out[place + 2] = a, b, c or 0
    place = place + 3
  end

  if place == length + 2 + 3 * count then
    out[length + 1] = granted
    if charge and numbers[costs + 1] > 0 then
      local k = numbers[first_key]
      local a, b, c = charge(asked[1], numbers[costs + 1], n, out[length + 2], out[length + 3], out[length + 4])
      if a then
        changed_by[k], state_a[k], state_b[k], state_c[k] = asked[1], a, b, c
      end
    else
      for i = 1, count do
        local k, limit, p = numbers[first_key + i - 1], asked[i], length - 1 + 3 * i
        local cost = numbers[costs + i]
        if granted > 0 and cost > 0 then
          changed_by[k], state_a[k], state_b[k], state_c[k] =
            limit, limit.algorithm.take(limit, cost, granted, out[p], out[p + 1], out[p + 2])
        else
          prolong(k, limit, out[p], out[p + 1], out[p + 2])
        end
      end
    end
    if recorded then
      read_lease(request)
      enter(request, first_key, length)
    end
    length = place - 1
  else
    if request.leased then
      read_lease(request)
    end
    local ok, result = false, foreign
    if not foreign then
      if not decide then
        prepare()
      end
      if recorded and request.mode ~= CONSUME then
        ok, result = pcall(decide_record, request, first_key, length)
      else
        local decides = request.mode <= PEEK or charge
        ok, result = pcall(decides and decide or decide_change, request, n, first_key, length)
      end
    end
    if ok then
      if recorded and request.mode == CONSUME then
        enter(request, first_key, length)
      end
      length = result
    else
      -- Redis 7 raises tables as errors; this script raises texts.
      reply[#reply + 1] = type(result) == 'table' and result.err or result
      length = length + 1
      out[length] = 1 - #reply
    end
  end
end

-- Writes the counters that have changed or must live longer. If a counter's key lives long enough,
-- it is overwritten in place.
local texts = {} -- by number of seconds: the number as a text
for k = 1, key_count do
  local limit, lifetime = changed_by[k], lifetimes[k]
  if limit or lifetime then
    local kind, a, b, c = limit and limit.algorithm, state_a[k], state_b[k], state_c[k]
    -- Never negative: a SET with a negative expiry would fail after other writes have succeeded.
    lifetime = max(lifetime or 0, kind and kind.lifetime(limit, now, a, b, c) or 0)
    local its = run and run.grants and run.grants[k]
    local extra = its and its.older > 0 and GRANT_FIELDS or 0
    if extra > 0 then
      lifetime = lifetime + LONGEST_GRANT
    end
    local seconds = ceil(lifetime / 1000000) + 1
    local expiry = expiries[k] -- nil: a new counter
    local left = knows_time and expiry and expiry > 0 and (expiry - second) % EXPIRY_MODULUS or 0
    if left >= EXPIRY_MODULUS / 2 then -- an expiry in the past
      left = 0
    end
    local lasts = left > seconds
      and kind and (kind.fields and not its or HEADER + 8 * ((kind.fields or #a) + extra) == #strings[k])
    if not lasts then
      if expiry then
        seconds = seconds + max(LINGER, floor(seconds / 4))
      end
      seconds = max(seconds, left) -- another limit may need the state for longer
      expiry = knows_time and (second + seconds) % EXPIRY_MODULUS or 0
    end

    local value
    if not kind then
      value = pack_numbers('<BI3', FORMAT, expiry) .. strings[k]:sub(#strings[k] % 8 + 1)
    elseif kind.fields then
      value = pack_numbers(LAYOUTS[kind.fields], FORMAT, expiry, a, b, c)
      if extra > 0 then
        value = value .. pack_numbers('<dddd', its.older, its.newer, its.older_ends, its.newer_ends)
      end
    elseif not kind.write then
      value = pack_numbers('<BI3' .. rep('d', #a), FORMAT, expiry, unpack(a))
    end

    if lasts then
      call('SETRANGE', keys[k], '0', value)
    else
      local text = texts[seconds] or format('%d', seconds)
      texts[seconds] = text
      if value then
        call('SET', keys[k], value, 'EX', text)
      else
        kind.write(limit, keys[k], a, text)
      end
    end
  elseif run and run.settled[k] then
    call('SETRANGE', keys[k], '0', strings[k])
  end
end

reply[1] = pack_doubles(out, length)
return reply
