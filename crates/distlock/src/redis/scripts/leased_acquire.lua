-- Takes permits with a lease.
-- KEYS  1 the permits left   2 when those that are out expire
-- ARGV  1 lease in ms   2 channel   3 how many there are in all, if nobody has set that before; empty if unknown
--       4... an id for each permit
-- Returns nil: taken; n: too few are left, and the next one expires in n ms.
-- Mirrors Redisson's tryAcquire, and trySetPermits before it; by the server's clock. Ids tell a step that is sent again.
local count = #ARGV - 3
local left = number(KEYS[1])
local now = clock()
if not left then
  if ARGV[3] == '' then
    return FOREVER
  end
  left = tonumber(ARGV[3])
  redis.call('set', KEYS[1], ARGV[3])
  -- The permits of a semaphore that was deleted are none of this one.
  redis.call('del', KEYS[2])
  if left > 0 then
    redis.pcall('publish', ARGV[2], ARGV[3])
  end
else
  -- Takes back what has expired, so many at most that it takes no time that counts; the next step finds the rest.
  local expired = math.min(redis.call('zcount', KEYS[2], '-inf', now), CHUNK)
  if expired > 0 then
    left = redis.call('incrby', KEYS[1], expired)
    local removed = redis.pcall('zremrangebyrank', KEYS[2], 0, expired - 1)
    if type(removed) == 'table' then
      redis.pcall('decrby', KEYS[1], expired)
      return removed
    end
    if left > 0 then
      redis.pcall('publish', ARGV[2], left)
    end
  end
end
local score = now + ARGV[1]
if left < count then
  local first = redis.call('zscore', KEYS[2], ARGV[4])
  if first and tonumber(first) > now then
    lease(KEYS[2], 'XX', 4, #ARGV, score)
    return nil
  end
  local soonest = tonumber(redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES')[2] or FOREVER)
  return soonest < FOREVER and math.max(0, soonest - now) or FOREVER
end
local new = lease(KEYS[2], 'NX', 4, #ARGV, score)
if new < count then
  lease(KEYS[2], 'XX', 4, #ARGV, score)
end
if new > 0 then
  local taken = redis.pcall('decrby', KEYS[1], new)
  if type(taken) == 'table' then
    -- Scripts do not roll back: what was not taken must not be given back.
    remove(KEYS[2], 4, #ARGV)
    return taken
  end
end
local ttl = redis.call('pttl', KEYS[1])
if ttl > 0 then
  redis.call('pexpire', KEYS[2], ttl)
end
return nil
