-- Frees a fair lock whoever holds it, and calls the first in line. Those who wait keep their places.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- ARGV  1 channel
-- Returns what stood there before, as fair_inspect does. Something without a time to live is no lock and stays.
-- Mirrors Redisson's fair forceUnlock.
local ttl, fields = redis.call('pttl', lock), redis.call('hgetall', lock)
if ttl == -1 then
  return { ttl, fields, {} }
end
local now = clock()
drop_dead(now, ARGV[1])
local waiting = redis.call('lrange', queue, 0, -1)
redis.call('del', lock)
-- The lock is free even if nobody may be told.
call_next(now, ARGV[1])
return { ttl, fields, waiting }
