-- What the scripts of a fair lock share; each of them follows on this.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- The numbers are those of store/machine/fair.rs, in ms.
local RECHECK, RECHECK_NEAR, RECHECK_LEAST, LATER = 5000, 1500, 100, 2000
local GRACE, ABSENCE, LEAST, PLACE = 1000, 5000, 5000, 300000
local NEAR, WALK = 8, 128

local lock, queue, timeouts = KEYS[1], KEYS[2], KEYS[3]

-- The server's clock: Redisson takes each client's, and a client whose clock is ahead throws the others out.
local function clock()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Brings the times of all but the spared closer, all by the same. Redisson takes the patience of whoever comes in off the times
-- of all behind it, however little they have: so it must still be in there. A refusal costs only time, hence pcall.
local function closer(by, spared)
  if by <= 0 then
    return
  end
  local all, changes = redis.call('zrange', timeouts, 0, -1, 'withscores'), {}
  for i = 1, #all, 2 do
    if not spared[all[i]] then
      changes[#changes + 1] = tonumber(all[i + 1]) - by
      changes[#changes + 1] = all[i]
    end
    -- One command for many, but no more than Lua can unpack.
    if #changes == 1000 or #changes > 0 and i == #all - 1 then
      redis.pcall('zadd', timeouts, 'xx', unpack(changes))
      changes = {}
    end
  end
end

-- Somebody has left this place: brings those behind it closer, but not the first of them below the floor.
local function close_up(place, by, floor, before)
  local first = redis.call('lindex', queue, place)
  if first then
    local score = tonumber(redis.call('zscore', timeouts, first) or 0)
    closer(math.min(by, score - floor), before)
  end
end

-- Not being allowed to ask is no reason to take anybody for dead.
local function listens(waiter, channel)
  local listening = redis.pcall('pubsub', 'numsub', channel .. ':' .. waiter)
  return not listening[2] or listening[2] > 0
end

-- Drops those at the head of the queue whose time is over or unknown. If the lock is free for somebody to ask, those behind them
-- who do not listen have had the same grace. Returns who is first now, and whether any went. They are told: one of Java's
-- that lives after all comes back, and would otherwise wait until the lock expires.
local function drop_dead(now, channel, asker)
  local dropped, looked = false, 0
  while true do
    local head = redis.call('lindex', queue, 0)
    local score = head and redis.call('zscore', timeouts, head)
    local lives = score and tonumber(score) > now
    if lives and dropped and asker and head ~= asker and looked < WALK then
      looked = looked + 1
      lives = listens(head, channel)
    end
    if not head or lives then
      if head and dropped then
        -- Nobody has taken the patience of the dead off the others' times.
        closer(score - (now + math.max(redis.call('pttl', lock), 0) + PLACE), {})
      end
      return head, dropped
    end
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, head)
    redis.pcall('publish', channel .. ':' .. head, '0')
    dropped = true
  end
end

-- The lock is free and it is the turn of this one, who does not come: leaves it no more time than until the limit. Nobody else:
-- what is cut, Java takes off once more when it comes in. Returns the time left, and whether it had more.
local function cut(head, limit, now)
  local score = tonumber(redis.call('zscore', timeouts, head) or now)
  if score > limit then
    redis.pcall('zadd', timeouts, 'xx', limit, head)
  end
  return math.min(score, limit), score > limit
end

-- Returns the first in the queue who is there, and how many before it are not.
local function first_present(present)
  local absent = 0
  while absent < WALK do
    local waiter = redis.call('lindex', queue, absent)
    if not waiter or present(waiter) then
      return waiter, absent
    end
    absent = absent + 1
  end
  return false, absent
end

-- The lock is free: calls the first who hears it. Returns how many did, or -3 if calling is refused.
local function call_next(now, channel)
  local heard = 0
  local first, absent = first_present(function(waiter)
    heard = redis.pcall('publish', channel .. ':' .. waiter, '0')
    return type(heard) == 'table' or heard > 0
  end)
  -- Unless nobody is there who would have to wait for it: whoever comes next adds to its time.
  if first and absent > 0 then
    cut(redis.call('lindex', queue, 0), now + GRACE, now)
  end
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
