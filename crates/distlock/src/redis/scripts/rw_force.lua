-- Frees a read-write lock whoever holds it, if it is held in this way, and tells everybody who listens.
-- KEYS  1 the lock   2 the writer that waits
-- ARGV  1 read | write   2 what the keys of read holds begin with   3 channel   4 message
-- Returns what was freed, as rw_inspect tells it; that it is free if it was held in the other way.
-- Mirrors Redisson's forceUnlock of either half; takes the keys of the read holds away as well.
local ttl = redis.call('pttl', KEYS[1])
if ttl < 0 then
  return { ttl, {} }
end
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  return redis.error_reply(OTHER_KIND)
end
if mode ~= ARGV[1] then
  return { -2, {} }
end
local found, left = holders(mode)
for i = 1, #found, 3 do
  for n = 1, found[i + 2] == 'read' and tonumber(found[i + 1]) or 0 do
    redis.call('del', hold(found[i], n))
  end
end
redis.call('del', KEYS[1])
if #found > 0 then
  redis.call('del', KEYS[2])
end
-- The lock is free even if nobody may be told.
redis.pcall('publish', ARGV[3], ARGV[4])
if mode == 'read' then
  ttl = left
end
return { ttl, found }
