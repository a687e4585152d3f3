-- Grants: units that servers took from a counter in advance, to decide checks by themselves until
-- the grant ends. The twin of src/core/algorithm/grant.h, which says why the units used in any
-- interval stay within the limit. docs/prefetch.md has the proof.
--
-- Units are out while servers hold them in grants. Grants that end at about the same time share a
-- generation. While units are out, the counter's string has four more doubles: the units of the
-- older and of the newer generation, and when these generations end (µs). Units that are out count
-- even if the limit of a check has no `prefetch`. An algorithm whose units can be granted has these
-- functions:
--   level    the units left, the time of the state, the latest end of a grant
--   cap      the state, changed so that at least the units that are out count as taken
--   last     the time of the state
--   is_new   only of windows: whether no unit has been taken in the window
--
-- cost      nothing for a counter that has no grants, if no check wants or returns one
-- atomic    runs inside the driver's script; reads and writes nothing itself
local GRANT_FIELDS = 4
local PART_OF_LEVEL, FEWEST_UNITS = 8, 4
local LONGEST_GRANT = 10000000

-- run       as for deciders; granters adds `grants`: by index into `keys`, the units that are out,
--           for each counter that has such units or had some earlier in this call
-- returns   functions for decide.lua
local function granters(run)
  local numbers, now, grants = run.numbers, run.now, {}
  run.grants = grants

  -- Reads from a counter's string which units are out.
  local function unpack_grants(k, kind, value)
    local older, newer, older_ends, newer_ends =
      unpack_numbers('<dddd', value, HEADER + 8 * kind.fields + 1)
    grants[k] = { older = older, newer = newer, older_ends = older_ends, newer_ends = newer_ends }
  end

  local function end_older(its)
    its.older, its.older_ends, its.newer, its.newer_ends = its.newer, its.newer_ends, 0, 0
  end

  local function cap(k, limit, a, b, c)
    return limit.algorithm.cap(limit, grants[k].older + grants[k].newer, a, b, c)
  end

  local function move(its, by)
    its.older_ends = its.older > 0 and its.older_ends + by or 0
    its.newer_ends = its.newer > 0 and its.newer_ends + by or 0
  end

  -- Moves the ends of the generations by `moved`, to another clock, and removes the generations
  -- that end by `time`. Returns the fields to store with a state of time `time`.
  local function pack_at(its, moved, time)
    move(its, moved)
    while its.older > 0 and its.older_ends <= time do
      end_older(its)
    end
    return pack_numbers('<dddd', its.older, its.newer, its.older_ends, its.newer_ends)
  end

  -- Like kind.advance. Until a generation ends, its units limit how far a bucket refills.
  local function advance(k, limit, a, b, c)
    local its, kind, keep = grants[k], limit.algorithm
    local last = kind.last(a, b, c)
    if now < last - MAX_SKEW then
      move(its, now - last)
    end
    while its.older > 0 and its.older_ends <= now do
      if not kind.is_new then
        keep, a, b, c = kind.advance(limit, its.older_ends, a, b, c)
        a, b, c = cap(k, limit, a, b, c)
      end
      end_older(its)
    end
    keep, a, b, c = kind.advance(limit, now, a, b, c)
    if kind.is_new and kind.is_new(a, b, c) then
      its.older, its.newer, its.older_ends, its.newer_ends = 0, 0, 0, 0
    end
    return keep, cap(k, limit, a, b, c)
  end

  -- Takes back the grant that a check returns. From position `at` on, `numbers` has the grant's
  -- generation, the units granted and the units unused.
  local function take_back(k, limit, at, a, b, c)
    local its, generation, granted, unused = grants[k], numbers[at], numbers[at + 1], numbers[at + 2]
    if not its or granted == 0 then
      return a, b, c
    elseif its.older > 0 and its.older_ends == generation then
      granted = min(granted, its.older)
      its.older = its.older - granted
    elseif its.newer > 0 and its.newer_ends == generation then
      granted = min(granted, its.newer)
      its.newer = its.newer - granted
    else
      return a, b, c
    end
    if its.newer == 0 then
      its.newer_ends = 0
    end
    if its.older == 0 then
      end_older(its)
    end
    unused = min(unused, granted)
    local x, y, z
    if unused > 0 then
      x, y, z = limit.algorithm.refund(limit, unused, false, a, b, c)
    end
    if x then
      a, b, c = x, y, z
    end
    return run.change(k, limit, a, b, c)
  end

  -- The generation that a grant joins, and when this generation ends; nil if both generations end
  -- too soon.
  local function generation_of(its, time, life)
    if its.older == 0 then
      return 'older', time + life
    elseif 2 * (its.older_ends - time) >= life then
      return 'older', its.older_ends
    elseif its.newer == 0 then
      return 'newer', time + life
    elseif 4 * (its.newer_ends - time) >= life then
      return 'newer', its.newer_ends
    end
  end

  -- Grants what a check wants, if `may` is true. From position `at` on, `numbers` has the units
  -- wanted and the longest life of the grant. Appends to `out` the grant (units, end of its
  -- generation, life), and then the units and the ends of both generations.
  local function grant(k, limit, at, may, length, a, b, c)
    local its, out = grants[k], run.out
    local units, ends, life = 0, 0, 0
    if may and numbers[at] > 0 and limit.algorithm.level then
      local level, time, latest = limit.algorithm.level(limit, a, b, c)
      local wanted, longest = min(numbers[at], floor(level / PART_OF_LEVEL)), numbers[at + 1]
      longest = min(longest, latest - time)
      if wanted >= FEWEST_UNITS and longest > 0 then
        its = its or { older = 0, newer = 0, older_ends = 0, newer_ends = 0 }
        grants[k] = its
        local which, its_end = generation_of(its, time, longest)
        if which then
          units, ends, life = wanted, its_end, min(longest, its_end - time)
          its[which], its[which .. '_ends'] = its[which] + units, ends
          run.change(k, limit, limit.algorithm.take(limit, units, 1, a, b, c))
        end
      end
    end
    out[length + 1], out[length + 2], out[length + 3] = units, ends, life
    out[length + 4], out[length + 5] = its and its.older or 0, its and its.newer or 0
    out[length + 6], out[length + 7] = its and its.older_ends or 0, its and its.newer_ends or 0
    return length + 7
  end

  return {
    unpack = unpack_grants, pack_at = pack_at, advance = advance, cap = cap, take_back = take_back,
    grant = grant,
  }
end
