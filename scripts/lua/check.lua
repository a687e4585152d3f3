-- The driver: decides a pack of checks in one atomic run of one script.
--
-- KEYS      the counters, each named once; or none, and ARGV begins with the counters: then they may
--           be of all slots that a node of a cluster owns
-- ARGV…     leases, in the order of the checks that have one: 16 bytes of id, ttl (µs) as a
--           little-endian double
-- last ARGV little-endian doubles:
--             version (5), time (µs since the epoch; 0: Redis' own clock),
--             number of limits, number of requests, number of checks, number of counters, then
--             per limit:    algorithm, number of its parameters, the parameters
--             per request:  what checks may ask for alike: cost, mode (see below), longest wait
--                           (µs) or for a refund the time of the charge (µs since the epoch; -1:
--                           none), whether under a lease (0, 1), number of counters, then
--                           per counter: index of its limit, group
--             per check:    index of its request, n, then per counter the index of its key; in mode
--                           7 then per counter the 3 numbers that the script replied to the check
--                           that is to be undone, or as they would be had it come alone
-- returns   { blob, message, … }; blob: little-endian doubles:
--             version (5), time of the decisions, then
--             per check:  for each of its groups its grants, then per counter of the group 3
--                         numbers, its snapshot from before the check (see the algorithm's C++
--                         header); in modes 3 to 7 instead whether it was admitted (0, 1), units
--                         dropped, and its snapshot from after the check;
--                         or, alone, minus the index of the message that says why it failed
-- cost      one TIME, one MGET, one SETRANGE or SET per counter charged, one EXISTS if any is new; for
--           counters in ARGV one GET each instead of MGET and EXISTS; more where an algorithm's file
--           or decide.lua says so, and for more than 4,000 counters
-- atomic    Redis runs a script without interleaving. Checks are decided in memory and the counters
--           written at the end, but for those that an algorithm writes itself. The script's first
--           write either fails, with nothing written, or all succeed. A counter in ARGV that is not
--           on this node is met before that; only the checks that ask it fail.
--
-- A check is a run of n equal requests: the first g of them are granted, as n calls one after the
-- other would be. Group 0 holds the enforced limits, all of which must grant; each further group is
-- a shadow rule, charged for those requests that both it and group 0 grant. Without group 0, all
-- are granted. In modes 3 to 7, n is 1 and groups make no difference to what is changed.
--
-- Redis runs this for every pack, and its checks one after the other, so both count: what is defined
-- here is defined for each pack anew. Tables cost most, so a state is passed about as its fields.

local VERSION = 5

local LAYOUTS = { [2] = '<BI3dd', [3] = '<BI3ddd' } -- by the number of fields

-- So many seconds longer than it must, or a fourth, a counter lives that is charged again: for as
-- long it is written over in place, which costs Redis half of what a SET with an expiry does.
local LINGER = 10

local numbers = unpack_doubles(ARGV[#ARGV])
if numbers[1] ~= VERSION then
  return redis.error_reply('SLUICE the script and its caller are of different versions')
end

local now = numbers[2]
local knows_time = now == 0 -- by which Redis expires keys
if knows_time then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local key_count = numbers[6]
local declared = #KEYS > 0
local keys = declared and KEYS or ARGV

local at = 7
local algorithms = {}
local limits = {}
for i = 1, numbers[3] do
  local id = numbers[at]
  local kind = algorithms[id] or algorithm(id)
  algorithms[id] = kind
  limits[i] = kind:parse(numbers, at + 2)
  at = at + 2 + numbers[at + 1]
end

local requests = {}
for i = 1, numbers[4] do
  local mode, time, count = numbers[at + 1], numbers[at + 2], numbers[at + 4]
  local request = {
    cost = numbers[at], mode = mode, leased = numbers[at + 3] == 1, count = count,
    numbers = mode == UNDO and 4 * count or count, -- that a check has
    max_wait = mode ~= REFUND and time >= 0 and time,
    charged_at = mode == REFUND and time >= 0 and time,
    limits = {}, groups = {}, lease = false, ttl = false,
    is_plain = mode == CONSUME and numbers[at + 3] == 0,
  }
  at = at + 5
  for j = 1, count do
    local limit, group = limits[numbers[at]], numbers[at + 1]
    request.limits[j], request.groups[j] = limit, group
    request.is_plain = request.is_plain and group == 0 and limit.algorithm.fields
    at = at + 2
  end
  requests[i] = request
end

-- By index into KEYS: the strings Redis holds, and when they expire; of the counters that this run
-- has changed, their states, and the limit whose lifetime they get.
local strings, expiries = nil, {}
local changed_by, state_a, state_b, state_c = {}, {}, {}, {}
local out = { VERSION, now }
local length = 2
local reply = { '' }

-- Most checks are plain: they ask enforced limits alone, whose counters are numbers. What decide does
-- for them is done here once more, without what it does for the others: that takes a fourth off what
-- such a check costs Redis. Where a counter holds what it should not, decide sees to it.
local are_new -- whether there is nothing at all where there is no string; nil: not asked yet
local elsewhere -- by index, why a counter cannot be read on this node; nil: all can
local decide, decide_change
local leases = declared and 0 or key_count -- of ARGV, what stands before the next lease
if declared then
  strings = read_strings(keys)
else
  strings, are_new, elsewhere = read_one_by_one(keys, key_count)
end

local request, cost, count, width, asked, is_plain
for _ = 1, numbers[5] do
  local next_request, n, first_key = requests[numbers[at]], numbers[at + 1], at + 2
  if next_request ~= request then
    request = next_request
    cost, count, width = request.cost, request.count, request.numbers
    asked, is_plain = request.limits, request.is_plain
  end
  at = first_key + width

  local foreign = elsewhere and first_of(elsewhere, numbers, first_key, count)
  local granted, place = n, length + 2
  for i = 1, is_plain and not foreign and count or 0 do
    local k, limit = numbers[first_key + i - 1], asked[i]
    local kind, value, keep, a, b, c = limit.algorithm, strings[k]
    if changed_by[k] then
      if changed_by[k].algorithm ~= kind then
        break
      end
      keep, a, b, c = kind.advance(limit, now, state_a[k], state_b[k], state_c[k])
    elseif value then
      local format
      if #value == HEADER + 8 * kind.fields then
        format, expiries[k], a, b, c = unpack_numbers(LAYOUTS[kind.fields], value)
      end
      if format ~= FORMAT then
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
    granted = kind.grants(limit, request, granted, a, b, c)
    out[place], out[place + 1], out[place + 2] = a, b, c or 0
    place = place + 3
  end

  if place == length + 2 + 3 * count then
    out[length + 1] = granted
    if granted > 0 and cost > 0 then
      for i = 1, count do
        local k, limit, p = numbers[first_key + i - 1], asked[i], length - 1 + 3 * i
        changed_by[k], state_a[k], state_b[k], state_c[k] =
          limit, limit.algorithm.take(limit, cost, granted, out[p], out[p + 1], out[p + 2])
      end
    end
    length = place - 1
  else
    if request.leased then
      leases = leases + 1
      local lease = ARGV[leases]
      request.lease, request.ttl = lease:sub(1, 16), unpack_numbers('<d', lease, 17)
    end
    local ok, result = false, foreign
    if not foreign then
      if not decide then
        decide, decide_change = deciders({
          keys = keys, numbers = numbers, now = now, strings = strings, expiries = expiries,
          changed_by = changed_by, state_a = state_a, state_b = state_b, state_c = state_c, out = out,
        })
      end
      ok, result =
        pcall(request.mode <= PEEK and decide or decide_change, request, n, first_key, length)
    end
    if ok then
      length = result
    else
      -- Redis 7 raises tables, and so might a command of ours.
      reply[#reply + 1] = type(result) == 'table' and result.err or result
      length = length + 1
      out[length] = 1 - #reply
    end
  end
end

-- What was changed is written, in place if its key lives for long enough.
local second = floor(now / 1000000)
local texts = {} -- of seconds
for k = 1, key_count do
  local limit = changed_by[k]
  if limit then
    local kind, a, b, c = limit.algorithm, state_a[k], state_b[k], state_c[k]
    local seconds = ceil(kind.lifetime(limit, now, a, b, c) / 1000000) + 1
    local expiry = expiries[k] -- nil: a new counter
    local left = expiry and (expiry - second) % EXPIRY_MODULUS
    -- What has passed looks as if it were far ahead.
    local lasts = knows_time and left and expiry > 0 and left > seconds and left < EXPIRY_MODULUS / 2
      and (kind.fields or HEADER + 8 * #a == #strings[k])
    if not lasts then
      if expiry then
        seconds = seconds + max(LINGER, floor(seconds / 4))
      end
      expiry = knows_time and (second + seconds) % EXPIRY_MODULUS or 0
    end

    local value
    if kind.fields then
      value = pack_numbers(LAYOUTS[kind.fields], FORMAT, expiry, a, b, c)
    elseif not kind.write then
      value = pack_numbers('<BI3' .. rep('d', #a), FORMAT, expiry, unpack(a))
    end

    if lasts then
      call('SETRANGE', keys[k], '0', value)
    else
      local text = texts[seconds] or string.format('%d', seconds)
      texts[seconds] = text
      if value then
        call('SET', keys[k], value, 'EX', text)
      else
        kind.write(limit, keys[k], a, text)
      end
    end
  end
end

reply[1] = pack_doubles(out, length)
return reply
