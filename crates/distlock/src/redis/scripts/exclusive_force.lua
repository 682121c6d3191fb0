-- Frees a lock whoever holds it, and tells everybody who listens.
-- KEYS  1 the lock
-- ARGV  1 channel
-- Returns what stood there before, as exclusive_inspect does. Something without a time to live is no lock and stays.
-- Mirrors Redisson's forceUnlock.
local ttl = redis.call('pttl', KEYS[1])
local fields = redis.call('hgetall', KEYS[1])
if ttl >= 0 then
  redis.call('del', KEYS[1])
  -- The lock is free even if nobody may be told.
  redis.pcall('publish', ARGV[1], '0')
end
return { ttl, fields }
