-- Who holds a read-write lock, at one moment.
-- KEYS  1 the lock
-- ARGV  1 unused   2 what the keys of read holds begin with
-- Returns { time to live in ms (-2 free, -1 none), { owner, depth, read | write, ... } }; readers whose holds have ended
--         are not there.
-- Mirrors Redisson's isLocked, getHoldCount and remainTimeToLive of both halves in one step.
local ttl = redis.call('pttl', KEYS[1])
if ttl < 0 then
  return { ttl, {} }
end
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  return redis.error_reply(OTHER_KIND)
end
local found, left = holders(mode)
if mode ~= 'write' then
  ttl = left
end
return { ttl, found }
