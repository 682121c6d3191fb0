-- Takes a read-write lock to write, or sets the depth of a write hold.
-- KEYS  1 the lock   2 the writer that waits
-- ARGV  1 owner   2 what the keys of read holds begin with   3 lease in ms   4 depth   5 in how many ms a writer that
--       waits comes again   6 for how many ms readers stand behind it; absent for a single try
-- Returns nil: held now at this depth; n >= 0: busy for n ms; -1: something without a time to live is in the way.
-- Mirrors Redisson's RedissonWriteLock.tryLockInnerAsync; sets the count instead of adding to it, takes the longer of two
-- leases instead of their sum, and does not wait for readers whose holds have ended.
local ttl = redis.call('pttl', KEYS[1])
if ttl == -1 then
  return -1
end
local field = ARGV[1] .. ':write'
local found = redis.call('hmget', KEYS[1], 'mode', field)
local mode, had = found[1], found[2]
if ttl >= 0 and not mode then
  return redis.error_reply(OTHER_KIND)
end
if had then
  -- The time to live first: if it is refused, nothing has changed yet.
  if tonumber(ARGV[3]) > ttl then
    redis.call('pexpire', KEYS[1], ARGV[3])
  end
  -- Also if it is the same: replicas are asked for what is written here, and may not have what was written before.
  redis.call('hset', KEYS[1], field, ARGV[4])
  return nil
end
if mode == 'write' then
  return ttl
end
if ARGV[4] ~= '1' then
  return 0
end
if mode then
  local left = readers_stay()
  if left >= 0 then
    if not ARGV[6] then
      return left
    end
    local writer = redis.call('get', KEYS[2])
    -- One that reads itself would wait for ever, and everybody behind it.
    if (not writer or writer == ARGV[1]) and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
      redis.call('set', KEYS[2], ARGV[1], 'px', ARGV[6])
    end
    return math.min(left, tonumber(ARGV[5]))
  end
end
redis.call('hset', KEYS[1], 'mode', 'write', field, 1)
local set = redis.pcall('pexpire', KEYS[1], ARGV[3])
if type(set) == 'table' then
  -- Scripts do not roll back: without this a refused PEXPIRE leaves a lock for ever.
  redis.pcall('del', KEYS[1])
  return set
end
if redis.call('get', KEYS[2]) == ARGV[1] then
  redis.call('del', KEYS[2])
end
return nil
