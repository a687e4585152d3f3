-- Records of leases of units: what a lease has taken from the counters of one hash tag, so that the
-- lease can be settled with the units that were used. The twin of lease_records.h in
-- src/store/memory, and of DecideChange in memory_store.cc in the same folder.
--
-- Stored under sluice:{tag}:lease:<id of the lease, 32 hexadecimal digits>, a string:
--   open      1 (1 byte), number of counters (3 bytes), when the lease ends (µs). Then for each of
--             the check's counters with that tag: units taken (-1: the counter's shadow rule has
--             denied the check), and the counter's snapshot from before the check (3 numbers). The
--             lease can be settled until its end plus SETTLES_FOR.
--   settled   2 (1 byte), 0 (3 bytes), the time until which the lease is known as settled (µs)
-- All other numbers are little-endian doubles. Redis removes the key some time after the record has
-- ended; the exact time does not matter.
--
-- cost      per record, one key of the driver's MGET if it is read, and one SET if it is written
-- atomic    runs inside the driver's script. A check's record is written after its counters have
--           been decided; from then on, nothing of the check can fail.
local RECORD_LAYOUT, RECORD_HEADER = '<BI3d', 12
local OPEN, SETTLED = 1, 2
local SETTLES_FOR, KNOWS_SETTLED_FOR = 600000000, 60000000

-- run       as for deciders, including the functions that deciders adds
-- returns   two functions: enter, to call after a check of mode 1, and decide_record, for all other
--           modes. Both take the request, the index of its first key in `numbers`, and the length
--           of `out` before the reply to the check.
local function recorders(run)
  local keys, numbers, now, out, strings = run.keys, run.numbers, run.now, run.out, run.strings
  local key_count = numbers[7]

  -- For the check being decided, by counter: the units held, and the snapshots from before the
  -- check. Tables are expensive, so all checks use the same tables.
  local held, x, y, z = {}, {}, {}, {}
  local draft_a, draft_b, draft_c, admitted, group_admits = {}, {}, {}, {}, {}
  -- By index into KEYS: where the next counter begins in an open record; 0: the record is not open.
  local rest = {}
  local texts = {} -- by number of seconds: the number as a text

  local function write(k, value, lasts)
    local seconds = ceil(lasts / 1000000) + 1
    local text = texts[seconds] or format('%d', seconds)
    texts[seconds], strings[k] = text, value
    call('SET', keys[k], value, 'EX', text)
  end

  -- Writes the records of a lease that opens: for each counter, the units held and the snapshot.
  local function write_open(request, first_record)
    local ends, fields, counted, concerned = now + request.ttl, {}, {}, {}
    for i = 1, request.count do
      local k = key_count + numbers[first_record + i - 1]
      local list = fields[k] or {}
      local n = #list
      list[n + 1], list[n + 2], list[n + 3], list[n + 4] = held[i], x[i], y[i], z[i]
      fields[k], counted[k] = list, (counted[k] or 0) + 1
      concerned[k] = concerned[k] or held[i] >= 0
    end
    for k, list in pairs(fields) do
      if concerned[k] then
        local value = pack_numbers(
          RECORD_LAYOUT .. rep('d', #list), OPEN, counted[k], ends, unpack(list)
        )
        write(k, value, request.ttl + SETTLES_FOR)
      end
    end
  end

  -- Writes the records of a check that has been decided. `at` is the length of `out` before the
  -- reply to the check.
  local function enter(request, first_key, at)
    local count, groups = request.count, request.groups
    local granted, any = 0, false
    local costs = first_key + count - 1 -- just before the first cost
    if count == 1 then
      if out[at + 1] > 0 then
        local value = pack_numbers(
          '<BI3ddddd', OPEN, 1, now + request.ttl, numbers[costs + 1], out[at + 2], out[at + 3],
          out[at + 4]
        )
        write(key_count + numbers[costs + 2], value, request.ttl + SETTLES_FOR)
      end
      return
    end
    for i = 1, count do
      if groups[i] ~= groups[i - 1] then
        at = at + 1
        granted = out[at]
      end
      held[i] = granted > 0 and numbers[costs + i] or -1
      x[i], y[i], z[i] = out[at + 1], out[at + 2], out[at + 3]
      at, any = at + 3, any or granted > 0
    end
    if any then
      write_open(request, costs + count + 1)
    end
  end

  -- Reads the records of a check into `held`, x, y and z. Returns the status of the lease (0 open,
  -- 1 settled, 2 unknown) and when it ends.
  local function read_records(request, first_record)
    local status, ends = 2, 0
    for i = 1, request.count do
      rest[key_count + numbers[first_record + i - 1]] = nil
    end
    for i = 1, request.count do
      local k = key_count + numbers[first_record + i - 1]
      local value, place = strings[k], rest[k]
      if place == nil then
        place = 0
        local kind, counted, its_end
        if value and #value >= RECORD_HEADER then
          kind, counted, its_end = unpack_numbers(RECORD_LAYOUT, value)
        end
        if kind == OPEN and #value == RECORD_HEADER + 32 * counted then
          if now < its_end + SETTLES_FOR then
            status, ends, place = 0, max(ends, its_end), RECORD_HEADER + 1
          end
        elseif kind == SETTLED then
          status = now < its_end and min(status, 1) or status
        elseif value then
          error('the key holds a record of an unknown format: ' .. keys[k], 0)
        end
      end
      held[i] = -1
      if place > 0 and place < #value then
        held[i], x[i], y[i], z[i], place = unpack_numbers('<dddd', value, place)
      end
      rest[k] = place
    end
    return status, ends
  end

  -- Settles a counter of the lease. If more units were used than held, charges the difference. If
  -- fewer were used, gives the difference back, unless the algorithm gives nothing back. Returns
  -- the same as `changed` in decide.lua, but the level of a bucket may be above its capacity.
  local function settle(request, i, limit, used, a, b, c)
    local kind, units = limit.algorithm, held[i]
    if units < 0 then
      return 0
    elseif kind.release then
      return kind.release(limit, a, request)
    elseif used < 0 or used == units then
      return 0
    elseif used > units then
      return run.charge(request, limit, used - units, a, b, c)
    elseif limit.delays or kind.gives_nothing_back then
      return 0
    end
    local before_a, before_b, before_c = x[i], y[i], z[i]
    if kind.fields and used > 0 then
      before_a, before_b = kind.take(limit, used, 1, before_a, before_b, before_c)
    end
    if kind.unused then
      local more = kind.unused(limit, units - used, before_a, before_b, before_c, b)
      return 0, more and more ~= 0 and a + more or nil, b, c
    end
    local _, after_a, after_b, after_c =
      kind.undo(limit, now, units - used, before_a, before_b, before_c, a, b, c, request)
    return 0, after_a, after_b, after_c
  end

  -- The snapshot of a counter as it was before it was charged `cost` units.
  local function before_charge(request, k, limit, cost, a, b, c)
    local kind = limit.algorithm
    if kind.release then
      return 0, 0, 0
    elseif not kind.fields then
      local counted, reset_at = kind.snapshot(limit, cost, 1, now, a, request)
      return counted, reset_at, 0 -- not exact
    end
    local less_a, less_b, less_c = kind.refund(limit, cost, false, a, b, c)
    if less_a then
      a, b, c = run.capped(k, limit, less_a, less_b, less_c)
    end
    return a, b, c or 0
  end

  local function write_records(request, first_record, status)
    if request.mode == CHARGE and status == 2 then
      write_open(request, first_record)
      return
    end
    for i = 1, request.count do
      local k = key_count + numbers[first_record + i - 1]
      local is_open = rest[k] > 0
      rest[k] = 0
      if is_open and request.mode == SETTLE then
        local known_until = now + KNOWS_SETTLED_FOR
        write(k, pack_numbers(RECORD_LAYOUT, SETTLED, 0, known_until), KNOWS_SETTLED_FOR)
      elseif is_open then
        local _, counted = unpack_numbers(RECORD_LAYOUT, strings[k])
        local header = pack_numbers(RECORD_LAYOUT, OPEN, counted, now + request.ttl)
        local value = header .. strings[k]:sub(RECORD_HEADER + 1)
        write(k, value, request.ttl + SETTLES_FOR)
      end
    end
  end

  -- Appends the status of the lease and when it ends. Then for each group whether it admits, and
  -- for each counter of the group: whether the counter admits, the units dropped, the units that
  -- the lease held (-1: none), and the counter's snapshot.
  local function decide_record(request, first_key, length)
    local mode, count, limits, groups = request.mode, request.count, request.limits, request.groups
    local costs = first_key + count - 1 -- just before the first cost
    local first_record = costs + count + 1
    local status, ends = read_records(request, first_record)
    local all_admit = mode ~= RENEW or status == 0 and now < ends
    for i = 1, count do
      local limit, group = limits[i], groups[i]
      local a, b, c = run.read(numbers[first_key + i - 1], limit, mode, true)
      draft_a[i], draft_b[i], draft_c[i] = a, b, c
      local kind, admits = limit.algorithm, 1
      if mode == CHARGE then
        local cost = kind.holds and numbers[costs + i] or 0
        admits = kind.grants(limit, request, cost, 1, a, b, c)
      elseif mode == RENEW and kind.holds and held[i] > 0 then
        admits = kind.holds(a, request) and 1 or 0
      end
      admitted[i] = admits
      group_admits[group] = group == groups[i - 1] and min(group_admits[group], admits) or admits
      all_admit = all_admit and (admits == 1 or group > 0)
    end
    local changes = mode == SETTLE and status == 0 or mode == RENEW and all_admit
      or mode == CHARGE and status ~= 1

    out[length + 1], out[length + 2] = status, changes and mode ~= SETTLE and now + request.ttl or ends
    length = length + 2
    for i = 1, count do
      local limit, cost = limits[i], numbers[costs + i]
      local kind, k, dropped, a, b, c = limit.algorithm, numbers[first_key + i - 1], 0
      local da, db, dc = draft_a[i], draft_b[i], draft_c[i]
      if changes and mode == SETTLE then
        dropped, a, b, c = settle(request, i, limit, cost, da, db, dc)
      elseif changes and mode == CHARGE and kind.holds
        or changes and mode == RENEW and kind.holds and held[i] > 0 and admitted[i] == 1 then
        dropped, a, b, c = run.changed(request, limit, cost, all_admit, 0, da, db, dc)
      end
      if a and kind.settled then
        run.settle_bucket(k, limit, da, db, a - da)
        a, b, c = run.read(k, limit, mode, true)
      elseif a then
        a, b, c = run.change(k, limit, a, b, c)
      else
        a, b, c = da, db, dc
      end
      if groups[i] ~= groups[i - 1] then
        length = length + 1
        out[length] = group_admits[groups[i]]
      end
      out[length + 1], out[length + 2], out[length + 3] = admitted[i], dropped, held[i]
      if cost < 0 or mode == CHARGE and not kind.holds then
        cost = 0
      end
      length = run.append_snapshot(length + 3, limit, cost, 0, request, a, b, c)
      if mode == CHARGE and status == 2 then
        held[i] = numbers[costs + i]
        x[i], y[i], z[i] = before_charge(request, k, limit, held[i], a, b, c)
      end
    end
    if changes then
      write_records(request, first_record, status)
    end
    return length
  end

  return enter, decide_record
end
