-- Sets the depth of a hold; at 0 the lock is free and everybody who listens is told.
-- KEYS  1 the lock
-- ARGV  1 owner   2 depth   3 channel
-- Returns n >= 0: free now, n heard of it; -1: was not held by the owner; -2: still held; -3: free now, but telling
--         anybody was refused.
-- Mirrors Redisson's unlockInnerAsync without the latch: setting the count twice does no harm. The time to live stays.
if ARGV[2] == '0' then
  -- HDEL removes the hash with its last field, and works when the server is out of memory.
  if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return -1
  end
  local heard = redis.pcall('publish', ARGV[3], '0')
  if type(heard) == 'table' then
    return -3
  end
  return heard
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return -1
end
-- Out of memory is no reason to fail: the holder knows its depth, and depth 0 removes the field whatever it says.
redis.pcall('hset', KEYS[1], ARGV[1], ARGV[2])
return -2
