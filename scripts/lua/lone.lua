-- The fast path: if a call has one plain check, decides it as check.lua would, but in half the
-- time. KEYS, ARGV and the reply are as in check.lua. If anything is unexpected, this file writes
-- nothing and leaves the call to check.lua, which starts from the beginning.
--
-- cost      one TIME, one MGET, one SETRANGE or SET per counter charged, one EXISTS per new counter
--           (none for a single new counter that is charged); for a sorted set one TIME, one ZCARD
--           and the calls that its algorithm's file states
-- atomic    like check.lua. A single new counter is written by SET NX, which writes nothing if
--           the key holds a value of another type.
--
-- Performance: a lone check finds nothing in the processor's caches, so every definition, table and
-- function call is expensive. The blocks between lines with --@ are repeated for each algorithm,
-- with the algorithm's functions inlined; see cmake/lua_script.py.
repeat
  local version, time, lone, _, _, _, _, _, mode, wait, leased, _, _, _, _, n, _, cost,
    id, _, p1, p2, p3, p4, p5 = unpack_numbers('<ddddddddddddddddddddddddd', ARGV[#ARGV])
  if lone == 0 or version ~= VERSION then
    break
  end

  local now = time
  local knows_time = time == 0
  if knows_time then
    time = call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  local second = floor(now / 1000000)

  local request_max_wait = wait >= 0 and wait
  local request_max_delay = wait ~= -1 and (wait >= 0 and wait or -2 - wait)
  local consumes = mode == CONSUME

  local declared = #KEYS > 0
  local keys = declared and KEYS or ARGV
  local strings = declared and lone > 1 and call('MGET', unpack(KEYS))

  -- For a check with several limits: the position of the next limit in the last ARGV, the strings
  -- to write, their keys' lives as texts, and the numbers to reply.
  local place, values, texts, reply
  -- Whether a denial by a later limit would make snapshots or lifetimes of earlier limits wrong.
  local is_unsure = false
  if lone > 1 then
    place, values, texts, reply = 8 * (14 + 4 * lone) + 1, {}, {}, {}
    n = 1
  end

  local granted, decided = n, 0
  local key, value, stored, seconds, lasts, x, y, z
  for i = 1, lone do
    if lone > 1 then
      local parameters
      id, parameters, p1, p2, p3, p4, p5 = unpack_numbers('<ddddddd', ARGV[#ARGV], place)
      place = place + 8 * (2 + parameters)
      cost = unpack_numbers('<d', ARGV[#ARGV], 8 * (13 + 3 * lone + i) + 1)
    end
    key, stored, seconds = keys[i], nil, nil
    local takes = consumes and cost > 0

    --@ for sets
    if id == kind.id then
      local size = lone == 1 and try('ZCARD', key)
      if type(size) ~= 'number' then
        break -- the check has several limits, or the key holds no set or is on another node
      end
      local request_lease, request_ttl
      if leased == 1 then
        local lease = ARGV[declared and 1 or 2]
        request_lease, request_ttl = lease:sub(1, 16), unpack_numbers('<d', lease, 17)
      end
      local limit = kind.parse(p1, p2, p3, p4, p5)
      local must_keep, state
      if size > 0 then
        state = kind.read(key)
        if not state then
          break -- an unknown format
        end
        must_keep, state = kind.advance(limit, now, state)
        state.size = size
      else
        must_keep, state = kind.open(limit, now, key)
      end
      if must_keep then
        break
      end
      granted = kind.grants(limit, request, cost, granted, state)
      x, y, z = kind.snapshot(limit, cost, takes and granted or 0, now, state, request)
      if takes and granted > 0 then
        state = kind.take(limit, cost, granted, state, nil, nil, request)
        local lifetime = kind.lifetime(limit, now, state)
        seconds = ceil(max(0, lifetime) / 1000000) + 1
        local text = format('%d', seconds)
        kind.write(limit, key, state, text)
      end
      return pack_numbers('<dddddd', VERSION, now, granted, x, y, z)
    end
    --@ end

    local found = strings or try('MGET', key)
    value = found[strings and i or 1]
    if found.err then
      break -- on another node
    end
    local its_format, expiry, a, b, c, state, lifetime, varies = FORMAT
    --@ for numbers
    if id == kind.id then
      local limit = kind.parse(p1, p2, p3, p4, p5)
      local must_keep
      if not value then
        must_keep, a, b, c = kind.open(limit, now)
      elseif #value == HEADER + 8 * kind.fields then
        its_format, expiry, a, b, c = unpack_numbers(kind.layout, value)
        must_keep, a, b, c = kind.advance(limit, now, a, b, c)
      else
        break
      end
      if must_keep or its_format ~= FORMAT then
        break
      end
      x, y, z = a, b, c or 0
      granted = kind.grants(limit, request, cost, granted, a, b, c)
      if takes and granted > 0 then
        a, b, c = kind.take(limit, cost, granted, a, b, c)
      end
      lifetime = kind.lifetime(limit, now, a, b, c)
      varies = kind.lifetime_varies
    end
    --@ end
    --@ for arrays
    if id == kind.id then
      local limit = kind.parse(p1, p2, p3, p4, p5)
      local must_keep
      if not value then
        must_keep, state = kind.open(limit, now)
      elseif #value % 8 == HEADER then
        its_format, expiry = unpack_numbers('<BI3', value)
        state = { unpack_numbers('<' .. rep('d', (#value - HEADER) / 8), value, HEADER + 1) }
        state[#state] = nil -- unpack's next position
        must_keep, state = kind.advance(limit, now, state)
      else
        break
      end
      if must_keep or its_format ~= FORMAT then
        break
      end
      granted = kind.grants(limit, request, cost, granted, state)
      x, y, z = kind.snapshot(limit, cost, takes and granted or 0, now, state)
      if takes and granted > 0 then
        state = kind.take(limit, cost, granted, state)
        is_unsure = true
      end
      lifetime = kind.lifetime(limit, now, state)
    end
    --@ end
    if not lifetime then
      break -- an unknown algorithm
    end

    if takes and granted > 0 then
      seconds = ceil(max(0, lifetime) / 1000000) + 1
      local left = expiry and (expiry - second) % EXPIRY_MODULUS
      -- Because of the modulus, an expiry in the past looks as if it were far in the future.
      lasts = knows_time and left and expiry > 0 and left > seconds and left < EXPIRY_MODULUS / 2
        and (not state or HEADER + 8 * #state == #value)
      if not lasts then
        if expiry then
          seconds = seconds + max(LINGER, floor(seconds / 4))
        end
        expiry = knows_time and (second + seconds) % EXPIRY_MODULUS or 0
        is_unsure = is_unsure or (varies and value)
      end
      if state then
        stored = pack_numbers('<BI3' .. rep('d', #state), FORMAT, expiry, unpack(state))
      elseif c then
        stored = pack_numbers('<BI3ddd', FORMAT, expiry, a, b, c)
      else
        stored = pack_numbers('<BI3dd', FORMAT, expiry, a, b)
      end
    elseif value then
      local left = expiry > 0 and (expiry - second) % EXPIRY_MODULUS or 0
      if varies and (lifetime > (left - 1) * 1000000 or left > EXPIRY_MODULUS / 2) then
        break -- the key must live longer
      end
    end
    if not value and (lone > 1 or not stored) and call('EXISTS', key) == 1 then
      break -- a value of another type
    end
    if lone > 1 then
      local at = 3 * i
      reply[at + 1], reply[at + 2], reply[at + 3] = x, y, z
      values[i], texts[i] = stored, seconds and not lasts and format('%d', seconds)
    end
    decided = i
  end
  if decided < lone then
    break
  end

  if lone == 1 then
    if not stored then
      -- Nothing is taken.
    elseif lasts then
      call('SETRANGE', key, '0', stored)
    elseif value then
      call('SET', key, stored, 'EX', format('%d', seconds))
    elseif not call('SET', key, stored, 'EX', format('%d', seconds), 'NX') then
      break -- a value of another type
    end
    return pack_numbers('<dddddd', VERSION, now, granted, x, y, z)
  end

  if granted > 0 then
    for i = 1, lone do
      if texts[i] then
        call('SET', keys[i], values[i], 'EX', texts[i])
      elseif values[i] then
        call('SETRANGE', keys[i], '0', values[i])
      end
    end
  elseif is_unsure then
    break
  end
  reply[1], reply[2], reply[3] = VERSION, now, granted
  return pack_numbers('<' .. rep('d', 3 + 3 * lone), unpack(reply))
until true
