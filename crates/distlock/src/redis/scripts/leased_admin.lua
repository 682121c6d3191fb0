-- Looks after the number of permits, and after one permit by its id. What has expired counts as left.
-- KEYS  1 the permits left   2 when those that are out expire
-- ARGV  1 what to do   2 a number   3 channel   4 the most permits there can be   5 an id, for extend and remaining
-- Returns  init: 1 set, 0 there was a number already
--          set, add: the permits left; both create the semaphore
--          available, acquired: how many
--          extend: 1 has a new lease of so many ms, 0 unknown or expired
--          remaining: ms, -1 for ever, -2 unknown or expired
--          delete: 1 removed, 0 there was none
-- Mirrors Redisson's trySetPermits, setPermits, addPermits, availablePermits, acquiredPermits, updateLeaseTime, getLeaseTime
-- and delete; the ones that only ask write nothing.
local op, amount, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local left = number(KEYS[1])
if op == 'delete' then
  redis.call('del', KEYS[2])
  return redis.call('del', KEYS[1])
end
local function tell(permits)
  if permits > 0 then
    redis.pcall('publish', ARGV[3], permits)
  end
end
if not left then
  if op == 'init' or op == 'set' or op == 'add' then
    amount = math.max(-most, math.min(most, amount))
    redis.call('set', KEYS[1], amount)
    -- The permits of a semaphore that was deleted are none of this one.
    redis.call('del', KEYS[2])
    tell(amount)
    return op == 'init' and 1 or amount
  end
  return op == 'remaining' and -2 or 0
end
if op == 'init' then
  return 0
end
local now = clock()
if op == 'extend' or op == 'remaining' then
  local score = tonumber(redis.call('zscore', KEYS[2], ARGV[5]) or 0)
  if score <= now then
    return op == 'remaining' and -2 or 0
  end
  if op == 'remaining' then
    return score < FOREVER and score - now or -1
  end
  redis.call('zadd', KEYS[2], 'XX', now + amount, ARGV[5])
  return 1
end
local expired = redis.call('zcount', KEYS[2], '-inf', now)
if op == 'available' then
  return left + expired
end
local out = redis.call('zcard', KEYS[2])
if op == 'acquired' then
  return out - expired
end
local sum = op == 'set' and amount - out or math.max(-most, math.min(most, left + amount))
redis.call('set', KEYS[1], sum, 'KEEPTTL')
if sum > left then
  tell(sum)
end
return sum + expired
