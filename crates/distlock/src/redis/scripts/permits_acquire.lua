-- Takes permits.
-- KEYS  1 the permits left   2 who has how many
-- ARGV  1 owner   2 how many   3 channel   4 how many there are in all, if nobody has set that before; absent if unknown
-- Returns nil: taken; n: too few are left, and no lease ends that would change it.
-- Mirrors Redisson's tryAcquire, and trySetPermits before it. The owner's field tells a step that is sent again. A step that comes
-- after permits_release was told to remember that this owner gave up takes nothing: nobody would give it back.
local left = number(KEYS[1])
if not left then
  if not ARGV[4] then
    return 922337203685477
  end
  left = tonumber(ARGV[4])
  redis.call('set', KEYS[1], ARGV[4])
  -- Whoever had permits of a semaphore that was deleted has none of this one.
  redis.call('del', KEYS[2])
  if left > 0 then
    redis.pcall('publish', ARGV[3], ARGV[4])
  end
end
-- Sent again. Written again, too: replicas may not have what was answered before, and are asked for what is written now.
local function again(had)
  redis.call('hset', KEYS[2], ARGV[1], had)
end
if left < tonumber(ARGV[2]) then
  local had = redis.call('hget', KEYS[2], ARGV[1])
  if not had then
    return 922337203685477
  end
  again(had)
elseif redis.pcall('exists', KEYS[2] .. ':' .. ARGV[1]) == 1 then
  return 922337203685477
elseif redis.call('hsetnx', KEYS[2], ARGV[1], ARGV[2]) == 1 then
  local taken = redis.pcall('decrby', KEYS[1], ARGV[2])
  if type(taken) == 'table' then
    -- Scripts do not roll back: what was not taken must not be given back.
    redis.pcall('hdel', KEYS[2], ARGV[1])
    return taken
  end
else
  again(redis.call('hget', KEYS[2], ARGV[1]))
end
return nil
