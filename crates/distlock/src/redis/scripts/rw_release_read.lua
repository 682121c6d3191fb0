-- Sets the depth of a read hold; at 0 the reader leaves, and the last one frees the lock and tells everybody who listens.
-- KEYS  1 the lock
-- ARGV  1 owner   2 what the keys of read holds begin with   3 depth   4 channel
-- Returns n >= 0: the reader has left, n heard of it; -1: was not held by the owner; -2: still held; -3: has left and
--         freed the lock, but telling anybody was refused.
-- Mirrors Redisson's RedissonReadLock.unlockInnerAsync without the latch. While somebody writes the time to live stays:
-- it is the writer's.
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local mode, had = found[1], tonumber(found[2] or '')
if not mode or not had then
  return -1
end
local left, depth = stays(ARGV[1], had), tonumber(ARGV[3])
if left >= 0 and depth > 0 then
  -- DEL works when the server is out of memory, and after it so does everything else.
  for n = depth + 1, had do
    redis.call('del', hold(ARGV[1], n))
  end
  -- What is still held lasts as long as before.
  if redis.call('pttl', hold(ARGV[1], depth)) < left then
    redis.pcall('set', hold(ARGV[1], depth), '1', 'px', math.max(left, 1))
  end
  if had ~= depth then
    redis.pcall('hset', KEYS[1], ARGV[1], depth)
  end
  return -2
end
for n = 1, had do
  redis.call('del', hold(ARGV[1], n))
end
redis.call('hdel', KEYS[1], ARGV[1])
local heard = 0
if mode == 'read' then
  local rest = readers_stay()
  if rest >= 0 then
    redis.pcall('pexpire', KEYS[1], math.max(rest, 1))
  else
    redis.call('del', KEYS[1])
    heard = redis.pcall('publish', ARGV[4], '0')
  end
end
if left < 0 then
  -- Its holds had ended before. Now its field is gone, too.
  return -1
end
if type(heard) == 'table' then
  return -3
end
return heard
