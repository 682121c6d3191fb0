-- Takes a lock, sets the depth of a hold, or passes a hold on.
-- KEYS  1 the lock
-- ARGV  1 owner   2 lease in ms   3 depth   4 the owner it passes from; absent unless it does
-- Returns nil: held now at this depth; n >= 0: busy for n ms; -1: something without a time to live is in the way.
-- Mirrors Redisson's tryLockInnerAsync; sets the count instead of adding to it, so that doing it twice does no harm.
local ttl = redis.call('pttl', KEYS[1])
if ttl == -2 then
  if ARGV[3] ~= '1' or ARGV[4] then
    return 0
  end
  redis.call('hset', KEYS[1], ARGV[1], 1)
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if type(set) == 'table' then
    -- Scripts do not roll back: without this a refused PEXPIRE leaves a lock for ever.
    redis.pcall('hdel', KEYS[1], ARGV[1])
    redis.pcall('del', KEYS[1])
    return set
  end
  return nil
end
local mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
local heir = not mine and ARGV[4] and redis.call('hexists', KEYS[1], ARGV[4]) == 1
if mine or heir then
  -- The time to live first: if it is refused, nothing has changed yet. A step of the same stay never shortens it: this one may be
  -- late, and a later one may have been here before.
  if heir or tonumber(ARGV[2]) > ttl then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
  if heir then
    redis.call('hdel', KEYS[1], ARGV[4])
  end
  return nil
end
return ttl
