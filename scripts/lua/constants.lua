-- Constants shared by all parts of the composed script, which starts with them. The constants of
-- the algorithms are twins of constants in src/core/algorithm/algorithm.h.

local VERSION = 10 -- of the format of a call; see check.lua

local floor, ceil, min, max, rep = math.floor, math.ceil, math.min, math.max, string.rep
local pack_numbers, unpack_numbers, format = struct.pack, struct.unpack, string.format
local call, try = redis.call, redis.pcall

-- CHARGE takes units even if the limit denies; REFUND gives units back. RENEW, SETTLE and
-- INSPECT apply to the check's lease. If a counter of group 0 does not hold the lease, RENEW
-- changes nothing. INSPECT never changes anything. UNDO reverts a check that was granted earlier.
local CONSUME, PEEK, CHARGE, REFUND, RENEW, SETTLE, UNDO, INSPECT = 1, 2, 3, 4, 5, 6, 7, 8

-- Most algorithms keep a counter as a string: FORMAT (1 byte), the expiry of its key (seconds since
-- the epoch, modulo EXPIRY_MODULUS, in 3 bytes; 0: unknown), then its fields as little-endian
-- doubles. `fields` is the number of fields, unless it varies. Format 1, which is read but not
-- written, has no expiry. An algorithm with another representation has its own functions `read` and
-- `write`. If it has `at_once`, `write` runs after each check, otherwise at the end of the call.
--
-- In Lua, a state is either two or three numbers (a, b, c in the other files), or one table.
local FORMAT = 2
local HEADER = 4 -- bytes
local EXPIRY_MODULUS = 16777216

-- Whether a state must be stored even if the check changes nothing (nil: no); see enum WriteBack.
local KEEP_UNLESS_PEEK, KEEP_ALWAYS = 1, 2

-- If a counter's state is newer than the clock by more than this (µs), the clock was replaced.
local MAX_SKEW = 1000000

-- The largest count and the largest product of an algorithm.
local MAX_PRODUCT = 4503599627370496

-- A counter that is charged again lives longer than required: by this many seconds or a fourth of
-- its lifetime, whichever is longer. During this time it is overwritten in place, which costs Redis
-- half as much as a SET with an expiry.
local LINGER = 10
