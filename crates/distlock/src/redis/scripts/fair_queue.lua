-- What the scripts of a fair lock share; each of them follows on this.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- The numbers are those of store/state/fair.rs, in ms.
local RECHECK, RECHECK_NEAR, RECHECK_LEAST, LATER = 5000, 1500, 100, 2000
local GRACE, ABSENCE, LEAST = 1000, 5000, 5000
local NEAR, WALK = 8, 128

local lock, queue, timeouts = KEYS[1], KEYS[2], KEYS[3]

-- The server's clock: Redisson takes each client's, and a client whose clock is ahead throws the others out.
local function clock()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Drops those at the head of the queue whose time is over or unknown. Returns who is first now, and whether any went.
local function drop_dead(now)
  local dropped = false
  while true do
    local head = redis.call('lindex', queue, 0)
    local score = head and redis.call('zscore', timeouts, head)
    if not head or score and tonumber(score) > now then
      return head, dropped
    end
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, head)
    dropped = true
  end
end

-- Brings the times of all but the spared closer, but not below the floor. A refusal costs only time, hence pcall.
local function lower(by, floor, spared)
  if by <= 0 then
    return
  end
  local all, changes = redis.call('zrange', timeouts, 0, -1, 'withscores'), {}
  for i = 1, #all, 2 do
    local score = tonumber(all[i + 1])
    local lowered = math.max(score - by, math.min(score, floor))
    if lowered < score and not spared[all[i]] then
      changes[#changes + 1] = lowered
      changes[#changes + 1] = all[i]
    end
    -- One command for many, but no more than Lua can unpack.
    if #changes == 1000 or #changes > 0 and i == #all - 1 then
      redis.pcall('zadd', timeouts, 'xx', unpack(changes))
      changes = {}
    end
  end
end

-- Leaves these waiters no more time than until the limit, and brings those behind them closer by as much. Returns the latest
-- time left, and whether any of them had more.
local function cut(these, limit, now)
  local by, latest = 0, now
  for _, waiter in ipairs(these) do
    local score = tonumber(redis.call('zscore', timeouts, waiter) or now)
    if score > limit then
      redis.pcall('zadd', timeouts, 'xx', limit, waiter)
      by = math.max(by, score - limit)
    end
    latest = math.max(latest, math.min(score, limit))
  end
  -- Those just cut, and those before them, have less than that.
  lower(by, now + LEAST, {})
  return latest, by > 0
end

-- Returns the first in the queue who is there, and those before it.
local function first_present(present)
  local absent = {}
  while #absent < WALK do
    local waiter = redis.call('lindex', queue, #absent)
    if not waiter or present(waiter) then
      return waiter, absent
    end
    absent[#absent + 1] = waiter
  end
  return false, absent
end

-- The lock is free: calls the first who hears it. Returns how many did, or -3 if calling is refused.
local function call_next(now, channel)
  local heard = 0
  local _, absent = first_present(function(waiter)
    heard = redis.pcall('publish', channel .. ':' .. waiter, '0')
    return type(heard) == 'table' or heard > 0
  end)
  cut(absent, now + GRACE, now)
  return type(heard) == 'table' and -3 or heard
end

-- The lock is held, and another one may be first in line than before. It learns that when it asks next, unless the lock may
-- be free before.
local function tell_first(ttl, channel)
  local first = ttl < RECHECK and redis.call('lindex', queue, 0)
  if first then
    redis.pcall('publish', channel .. ':' .. first, '0')
  end
end
