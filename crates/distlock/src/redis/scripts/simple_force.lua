-- Frees a lock that is a plain value, whoever has it.
-- KEYS  1 the lock
-- Returns what stood there before, as simple_inspect does. A value without a time to live is no lock and stays.
local ttl = redis.call('pttl', KEYS[1])
local value = redis.call('get', KEYS[1])
if ttl >= 0 then
  redis.call('del', KEYS[1])
end
return { ttl, value }
