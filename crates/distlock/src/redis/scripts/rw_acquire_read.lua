-- Takes a read-write lock to read, or sets the depth of a read hold.
-- KEYS  1 the lock   2 the writer that waits
-- ARGV  1 owner   2 what the keys of read holds begin with   3 lease in ms   4 depth   5 in how many ms a writer that
--       waits comes again
-- Returns nil: held now at this depth; n >= 0: busy for n ms; -1: something without a time to live is in the way.
-- Mirrors Redisson's RedissonReadLock.tryLockInnerAsync; sets the count instead of adding to it. A new reader stands
-- behind a writer of this library that waits; Redisson's readers know nothing of it.
local ttl = redis.call('pttl', KEYS[1])
if ttl == -1 then
  return -1
end
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local mode, had = found[1], tonumber(found[2] or 0) or 0
if ttl >= 0 and not mode then
  return redis.error_reply(OTHER_KIND)
end
local lease, depth = tonumber(ARGV[3]), tonumber(ARGV[4])
local left = stays(ARGV[1], had)
if left < 0 then
  if depth ~= 1 then
    return 0
  end
  if mode == 'write' then
    -- The writer may read as well.
    if redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then
      return ttl
    end
  else
    local writer = redis.call('get', KEYS[2])
    if writer and writer ~= ARGV[1] then
      return math.max(1, math.min(redis.call('pttl', KEYS[2]), tonumber(ARGV[5])))
    end
  end
end
-- All holds of a reader last as long as its longest lease: which of its levels ends first is not told.
left = math.max(left, lease)
-- The hold first: if anything after it is refused, it ends by itself and counts for nothing.
redis.call('set', hold(ARGV[1], depth), '1', 'px', left)
for n = depth + 1, had do
  redis.call('del', hold(ARGV[1], n))
end
if ttl == -2 then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
  local set = redis.pcall('pexpire', KEYS[1], left)
  if type(set) == 'table' then
    -- Scripts do not roll back: without this a refused PEXPIRE leaves a lock for ever.
    redis.pcall('del', KEYS[1], hold(ARGV[1], 1))
    return set
  end
  return nil
end
if left > ttl then
  redis.call('pexpire', KEYS[1], left)
end
if had ~= depth then
  redis.call('hset', KEYS[1], ARGV[1], depth)
end
return nil
