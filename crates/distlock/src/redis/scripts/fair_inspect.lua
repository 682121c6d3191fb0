-- What stands under a name, at one moment.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- Returns { time to live in ms (-2 free, -1 none), { owner, depth, ... }, { who waits, first in line first } }.
-- Mirrors Redisson's isLocked, getHoldCount and remainTimeToLive in one step.
local waiting, now = {}, clock()
for _, waiter in ipairs(redis.call('lrange', queue, 0, -1)) do
  -- Those whose time is over are dropped by the next step; this one only reads.
  if #waiting > 0 or tonumber(redis.call('zscore', timeouts, waiter) or 0) > now then
    waiting[#waiting + 1] = waiter
  end
end
return { redis.call('pttl', lock), redis.call('hgetall', lock), waiting }
