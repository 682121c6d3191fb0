-- What stands under a name, at one moment. What has expired counts as left.
-- KEYS  1 the permits left   2 when those that are out expire
-- Returns { permits left or nil, ms until the next one expires (negative: none does), { id, ... } }.
-- Mirrors Redisson's availablePermits and acquiredPermits in one step, and writes nothing.
local left = number(KEYS[1])
if not left then
  return { false, -1, {} }
end
local now = clock()
local out = redis.call('zrangebyscore', KEYS[2], string.format('(%.0f', now), '+inf')
local soonest = -1
if #out > 0 then
  local score = tonumber(redis.call('zscore', KEYS[2], out[1]))
  soonest = score < FOREVER and score - now or -1
end
return { left + redis.call('zcount', KEYS[2], '-inf', now), soonest, out }
