-- Looks after the number of permits.
-- KEYS  1 the permits left   2 who has how many
-- ARGV  1 what to do   2 a number   3 channel   4 the most permits there can be
-- Returns  init: 1 set, 0 there was a number already
--          add, release: the permits left; both create the semaphore
--          release_if_exists: 1 given back, 0 there is no semaphore
--          drain: how many were left, none are now
--          available: the permits left
--          delete: 1 removed, 0 there was none
-- Mirrors Redisson's trySetPermits, addPermits, release, releaseIfExists, drainPermits, availablePermits and delete; keeps the
-- time to live where those drop it, and publishes only what a Java listener can take, which is above zero.
local op, most = ARGV[1], tonumber(ARGV[4])
if op == 'delete' then
  number(KEYS[1])
  redis.call('del', KEYS[2])
  return redis.call('del', KEYS[1])
end
local left = number(KEYS[1])
if op == 'available' then
  return left or 0
end
if op == 'drain' then
  if left then
    redis.call('set', KEYS[1], 0, 'KEEPTTL')
  end
  return left or 0
end
if left and op == 'init' or not left and op == 'release_if_exists' then
  return 0
end
local more = tonumber(ARGV[2])
local sum = math.max(-most, math.min(most, (left or 0) + more))
if left then
  if op ~= 'add' then
    -- A removal of nothing: after it a server that is out of memory lets permits come back.
    redis.call('hdel', KEYS[2], '')
  end
  redis.call('set', KEYS[1], sum, 'KEEPTTL')
else
  redis.call('set', KEYS[1], sum)
  -- Whoever had permits of a semaphore that was deleted has none of this one.
  redis.call('del', KEYS[2])
end
if more > 0 and sum > 0 then
  redis.pcall('publish', ARGV[3], sum)
end
if op == 'add' or op == 'release' then
  return sum
end
return 1
