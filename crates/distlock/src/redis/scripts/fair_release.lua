-- Sets the depth of a hold; at 0 the lock is free and the first in line who hears it is called.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- ARGV  1 owner   2 depth   3 channel
-- Returns n >= 0: free now, n heard of it; -1: was not held by the owner; -2: still held; -3: free now, but telling
--         anybody was refused.
-- Mirrors Redisson's fair unlockInnerAsync without the latch: setting the count twice does no harm. Redisson tells everybody
-- who unlocks a lock that is free that it did; here the answer is -1. The time to live stays.
local owner, depth, channel = ARGV[1], ARGV[2], ARGV[3]
local head, now = redis.call('lindex', queue, 0), nil
if head then
  now = clock()
  head = drop_dead(now, channel)
end
if depth ~= '0' then
  if redis.call('hexists', lock, owner) == 0 then
    return -1
  end
  -- Out of memory is no reason to fail: the holder knows its depth, and depth 0 removes the field whatever it says.
  redis.pcall('hset', lock, owner, depth)
  return -2
end
-- HDEL removes the hash with its last field, and works when the server is out of memory.
local held = redis.call('hdel', lock, owner) == 1
local heard = 0
-- Also if it had expired, or was released before and the answer was lost: nobody may have been called yet.
if head and (held or redis.call('exists', lock) == 0) then
  heard = call_next(now, channel)
end
return held and heard or -1
