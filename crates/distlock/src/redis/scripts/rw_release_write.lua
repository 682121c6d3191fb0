-- Sets the depth of a write hold; at 0 the writer leaves, waits no longer if it did, and everybody who listens is told.
-- KEYS  1 the lock   2 the writer that waits
-- ARGV  1 owner   2 what the keys of read holds begin with   3 depth   4 channel
-- Returns n >= 0: the writer has left, n heard of it; -1: was not held by the owner; -2: still held; -3: has left, but
--         telling anybody was refused.
-- Mirrors Redisson's RedissonWriteLock.unlockInnerAsync without the latch; a writer that reads on lets other readers in,
-- so unlike Redisson this tells them.
local field = ARGV[1] .. ':write'
local had = redis.call('hget', KEYS[1], field)
if ARGV[3] ~= '0' then
  if not had then
    return -1
  end
  if had ~= ARGV[3] then
    -- Out of memory is no reason to fail: the holder knows its depth.
    redis.pcall('hset', KEYS[1], field, ARGV[3])
  end
  return -2
end
local waited = redis.call('get', KEYS[2]) == ARGV[1]
if waited then
  redis.call('del', KEYS[2])
end
if had then
  redis.call('hdel', KEYS[1], field)
  local left = redis.call('hlen', KEYS[1]) > 1 and readers_stay() or -2
  if left >= 0 then
    redis.call('hset', KEYS[1], 'mode', 'read')
    redis.pcall('pexpire', KEYS[1], math.max(left, 1))
  else
    redis.call('del', KEYS[1])
  end
end
local heard = (had or waited) and redis.pcall('publish', ARGV[4], '1')
if not had then
  return -1
end
if type(heard) == 'table' then
  return -3
end
return heard
