-- Decides checks of every kind. The driver itself decides the most frequent kinds. It creates these
-- functions when the first check of another kind occurs.
--
-- run       variables shared with the driver: keys, numbers, now, strings, expiries,
--           changed_by, state_a, state_b, state_c, prolong, out. This file adds the functions that
--           record.lua and grants.lua use
-- returns   two functions: decide for modes 1 and 2 and for charges that may be coalesced, and
--           decide_change for all other checks. Both take the request, n, the index of the check's
--           first key in `numbers`, and the length of `out`. They append to `out` and return its
--           new length. If the check fails, they raise the reason.
-- cost      one EXISTS per new counter; more where an algorithm's file says so
-- atomic    runs inside the driver's script
--
-- What the file of an algorithm returns. A state is two or three numbers (a, b, c) or a table (a).
-- fields            how many numbers a state has; nil if it is a table
-- parse             the limit, from its parameters
-- open              KEEP_ALWAYS or KEEP_UNLESS_PEEK if the state must be written, otherwise nil;
--                   then the state of a new counter
-- advance           for a stored state: the same first result as `open`; then the state now
-- grants            how many of n checks are admitted
-- take              the state after a number of checks have been admitted
-- chargeable        how many units CHARGE may take
-- refund            the new state; nil if it does not change
-- undo              how many units stay charged; then the new state, or nil. The parameters x, y, z
--                   are the snapshot from before the check
-- lifetime          for how long the state matters, in µs
-- optional          `snapshot`: the snapshot, if the state is a table
--                   `read`, `write`: if Redis does not hold the counter as a string
--                   `charge`: takes coalesced charges
--                   `lifetime_varies`: the lifetime depends on the rate, and limits with different
--                   rates may use one counter
--                   `cap`, `level`, `last`, `is_new`: for prefetch (grants.lua)
--                   `holds`, `renew`, `release`: the state holds leases
--                   `at_once`: each check writes the state immediately
--                   `unused`: by how much the level of a bucket changes if a check is undone (nil:
--                   unknown)
--                   `settled`: the state to store after a settlement has changed a bucket's level
--                   `gives_nothing_back`: settling a lease of units gives back no units
local function deciders(run)
  local keys, numbers, now, out = run.keys, run.numbers, run.now, run.out
  local strings, expiries, changed_by = run.strings, run.expiries, run.changed_by
  local state_a, state_b, state_c, prolong = run.state_a, run.state_b, run.state_c, run.prolong
  local draft_a, draft_b, draft_c = {}, {}, {}
  local admits = {}
  local granting -- the functions of grants.lua; nil: not needed yet

  local function fail_unknown(k)
    error('the key holds a counter of an unknown format: ' .. keys[k], 0)
  end

  -- Returns the state that Redis holds as a string, or nil if Redis has no string for the key.
  local function unpack_string(k, kind)
    local value, fields = strings[k], kind.fields
    if not value then
      -- Overwriting another type would destroy foreign data.
      if call('EXISTS', keys[k]) == 1 then
        error('WRONGTYPE the key holds a value of another type: ' .. keys[k], 0)
      end
      return nil
    end
    local version, header = value:byte(), #value % 8
    local known = version == FORMAT and header == HEADER or version == 1 and header == 1
    local extra = fields and #value - header - 8 * fields or 0
    if version == FORMAT and extra == 8 * GRANT_FIELDS and kind.cap then
      granting = granting or granters(run)
      granting.unpack(k, kind, value)
    elseif not known or extra ~= 0 then
      fail_unknown(k)
    end
    local layout = '<' .. rep('d', floor(#value / 8))
    expiries[k] = header == HEADER and unpack_numbers('<I3', value, 2) or 0
    if fields then
      return unpack_numbers(layout, value, header + 1)
    end
    local state = { unpack_numbers(layout, value, header + 1) }
    state[#state] = nil -- unpack's next position
    return state
  end

  -- The given state, changed so that at least the units that are out in grants count as taken.
  local function capped(k, limit, a, b, c)
    if run.grants and run.grants[k] then
      return granting.cap(k, limit, a, b, c)
    end
    return a, b, c
  end

  -- Sets the state of a counter. Returns the state that was set.
  local function change(k, limit, a, b, c)
    a, b, c = capped(k, limit, a, b, c)
    if limit.algorithm.at_once then
      local seconds = ceil(max(0, limit.algorithm.lifetime(limit, now, a)) / 1000000) + 1
      limit.algorithm.write(limit, keys[k], a, format('%d', seconds))
    else
      changed_by[k], state_a[k], state_b[k], state_c[k] = limit, a, b, c
    end
    return a, b, c
  end

  -- The counter's stored state with the changes of this call; nil if the key is absent.
  local function read_stored(k, kind)
    if changed_by[k] then
      return state_a[k], state_b[k], state_c[k]
    elseif kind.read then
      local state = kind.read(keys[k])
      if state == false then
        fail_unknown(k)
      end
      return state
    end
    return unpack_string(k, kind)
  end

  -- The counter's state now. If the state is a table, returns the table itself, not a copy. This is
  -- safe: if a check takes nothing, it changes only fields that every advance computes again.
  -- `of_lease`: the limit may be outdated, so a bucket that was advanced at the limit's rate is not
  -- written.
  local function read(k, limit, mode, of_lease)
    local kind, keep = limit.algorithm
    local a, b, c = read_stored(k, kind)
    if changed_by[k] then
      prolong(k, changed_by[k], a, b, c)
    end
    if a and run.grants and run.grants[k] then
      keep, a, b, c = granting.advance(k, limit, a, b, c)
    elseif a then
      keep, a, b, c = kind.advance(limit, now, a, b, c)
    else
      keep, a, b, c = kind.open(limit, now, keys[k])
    end
    keep = not (of_lease and kind.settled) and keep
    if keep == KEEP_ALWAYS then
      expiries[k] = expiries[k] and 0 -- set by another clock
    end
    if keep and (keep == KEEP_ALWAYS or mode ~= PEEK) then
      change(k, limit, a, b, c)
    end
    prolong(k, limit, a, b, c)
    return a, b, c
  end

  -- Stores a bucket whose level a settlement changes by `more`. `level` is the bucket's level at
  -- time `last`, as read with `limit`. A string keeps its expiry, because `prolong` decides whether
  -- its key must live longer.
  local function settle_bucket(k, limit, level, last, more)
    local a, b = read_stored(k, limit.algorithm)
    local its = not changed_by[k] and run.grants and run.grants[k]
    local moved = min(0, last - (b or last))
    a, b = limit.algorithm.settled(
      limit, a or level, b or last, level, last, more, its and its.older + its.newer or 0
    )
    local value = strings[k]
    if not value and not changed_by[k] and a == level then
      return -- a new bucket: nothing to store, and another limit may give it a larger capacity
    elseif changed_by[k] or not value then
      changed_by[k], state_a[k], state_b[k] = changed_by[k] or limit, a, b
      return
    end
    local header = #value % 8
    local rest = its and granting.pack_at(its, moved, b) or ''
    strings[k] = value:sub(1, header) .. pack_numbers('<dd', a, b) .. rest
    run.settled[k] = true
  end

  -- Appends the snapshot of a counter. If the state consists of numbers, it is the snapshot.
  local function append_snapshot(at, limit, cost, taken, request, a, b, c)
    if not limit.algorithm.fields then
      a, b, c = limit.algorithm.snapshot(limit, cost, taken, now, a, request)
    end
    out[at + 1], out[at + 2], out[at + 3] = a, b, c or 0
    return at + 3
  end

  -- Applies the grants that a check returns. Each counter has 5 numbers: the first 3 are the grant
  -- that is returned, the other 2 are the grant that is wanted.
  local function take_back(request, first_key)
    granting = granting or granters(run)
    for i = 1, request.count do
      local k, at = numbers[first_key + i - 1], first_key + 2 * request.count + 5 * (i - 1)
      draft_a[i], draft_b[i], draft_c[i] =
        granting.take_back(k, request.limits[i], at, draft_a[i], draft_b[i], draft_c[i])
    end
  end

  -- Gives the grants that a check wants. If group 0 denies the check, gives none; if another group
  -- denies it, gives none from the counters of that group.
  local function grant(request, first_key, allowed, length)
    for i = 1, request.count do
      local k, at = numbers[first_key + i - 1], first_key + 2 * request.count + 5 * (i - 1) + 3
      local may = request.mode == CONSUME and allowed > 0 and admits[i] > 0
      length = granting.grant(k, request.limits[i], at, may, length, draft_a[i], draft_b[i], draft_c[i])
    end
    return length
  end

  -- Appends for each group how many checks it grants, and the snapshots of its counters. After the
  -- first change, nothing can fail.
  local function decide(request, n, first_key, length)
    local mode, count = request.mode, request.count
    local limits, groups = request.limits, request.groups
    for i = 1, count do
      draft_a[i], draft_b[i], draft_c[i] = read(numbers[first_key + i - 1], limits[i], mode)
    end
    if request.grants then
      take_back(request, first_key)
    end

    local allowed, costs = n, first_key + count - 1 -- just before the first cost
    local i = 1
    while i <= count do
      local begin, group = i, groups[i]
      -- All of n equal peeks have the same result, so one is decided for all.
      local granted = mode == PEEK and min(allowed, 1) or allowed
      repeat
        local limit = limits[i]
        granted = limit.algorithm.grants(
          limit, request, numbers[costs + i], granted, draft_a[i], draft_b[i], draft_c[i]
        )
        i = i + 1
      until groups[i] ~= group
      if mode == PEEK then
        granted = granted * allowed
      end
      if group == 0 then
        allowed = granted
      end
      local taken = mode == CONSUME and granted or 0
      if request.charge then
        taken = n
      end
      length = length + 1
      out[length] = granted
      for j = begin, i - 1 do
        local limit, a, b, c = limits[j], draft_a[j], draft_b[j], draft_c[j]
        local cost = numbers[costs + j]
        length = append_snapshot(length, limit, cost, taken, request, a, b, c)
        if taken > 0 and cost > 0 then
          local take = request.charge or limit.algorithm.take
          a, b, c = take(limit, cost, taken, a, b, c, request)
          if a then
            draft_a[j], draft_b[j], draft_c[j] = change(numbers[first_key + j - 1], limit, a, b, c)
          end
        end
        admits[j] = granted
      end
    end
    if request.grants then
      return grant(request, first_key, allowed, length)
    end
    return length
  end

  local function charge(request, limit, cost, a, b, c)
    local kind = limit.algorithm
    local charged = min(cost, kind.chargeable(limit, a, b, c))
    if charged > 0 then
      return cost - charged, kind.take(limit, charged, 1, a, b, c, request)
    end
    return cost
  end

  -- Applies modes 3 to 8 to a counter. Returns the units dropped, and the new state (nil if
  -- unchanged). The units dropped are, for CHARGE, those that do not fit; for UNDO, those that stay
  -- charged; for SETTLE, the first result of `release`. `record` is the position of the numbers for
  -- UNDO.
  local function changed(request, limit, cost, all_admit, record, a, b, c)
    local mode, kind = request.mode, limit.algorithm
    if mode == CHARGE and kind.holds and kind.holds(a, request) then
      return 0, kind.renew(a, request)
    elseif mode == CHARGE then
      return charge(request, limit, cost, a, b, c)
    elseif mode == REFUND then
      return 0, kind.refund(limit, cost, request.charged_at, a, b, c)
    elseif mode == UNDO then
      local x, y, z = numbers[record], numbers[record + 1], numbers[record + 2]
      return kind.undo(limit, now, cost, x, y, z, a, b, c, request)
    elseif mode == SETTLE then
      return kind.release(limit, a, request)
    elseif mode == INSPECT then
      return 0
    end
    return 0, all_admit and kind.renew(a, request) or nil
  end

  -- Appends for each group whether it admits, and the results of its counters.
  local function decide_change(request, _, first_key, length)
    local mode, count, limits, groups = request.mode, request.count, request.limits, request.groups
    local admitted, group_admits, all_admit = {}, {}, true
    local costs = first_key + count - 1 -- just before the first cost
    local records = costs + count + 1
    for i = 1, count do
      local limit, group = limits[i], groups[i]
      local a, b, c = read(numbers[first_key + i - 1], limit, mode)
      draft_a[i], draft_b[i], draft_c[i] = a, b, c
      admitted[i] = 1
      if mode == CHARGE then
        admitted[i] = limit.algorithm.grants(limit, request, numbers[costs + i], 1, a, b, c)
      elseif mode == RENEW then
        admitted[i] = limit.algorithm.holds(a, request) and 1 or 0
      end
      group_admits[group] = min(group_admits[group] or 1, admitted[i])
      all_admit = all_admit and (admitted[i] == 1 or group > 0)
    end

    for i = 1, count do
      local limit, cost = limits[i], numbers[costs + i]
      local dropped, a, b, c = changed(
        request, limit, cost, all_admit, records + 3 * (i - 1), draft_a[i], draft_b[i], draft_c[i]
      )
      if a then
        a, b, c = change(numbers[first_key + i - 1], limit, a, b, c)
      else
        a, b, c = draft_a[i], draft_b[i], draft_c[i]
      end
      if groups[i] ~= groups[i - 1] then
        length = length + 1
        out[length] = group_admits[groups[i]]
      end
      out[length + 1], out[length + 2] = admitted[i], dropped
      length = append_snapshot(length + 2, limit, cost, 0, request, a, b, c)
    end
    return length
  end

  run.read, run.change, run.changed, run.charge = read, change, changed, charge
  run.append_snapshot, run.capped, run.settle_bucket = append_snapshot, capped, settle_bucket
  return decide, decide_change
end
