-- Looks after a latch.
-- KEYS  1 the count; for forget, the answer to a count-down
-- ARGV  1 what to do   2 a count   3 channel
-- Returns  init: 1 set, 0 there was a count already
--          count: the count
--          reset: what the count was
--          delete, forget: 1 removed, 0 there was none
--          force: what the count was, nil if there was none
-- Mirrors Redisson's trySetCount, getCount and delete. A latch of zero is no latch; and one that goes away is open, so those
-- who wait are told `0` besides Redisson's `1`, and last, because a Java waiter that hears `1` in between waits on.
local op, new = ARGV[1], tonumber(ARGV[2])
local count = number(KEYS[1])
local was = math.max(0, count or 0)
if op == 'count' then
  return was
end
if op == 'forget' then
  return redis.call('del', KEYS[1])
end
if op == 'init' and count then
  return 0
end
if op == 'init' or op == 'reset' then
  if new > 0 then
    redis.call('set', KEYS[1], new)
    redis.pcall('publish', ARGV[3], '1')
  elseif count then
    redis.call('del', KEYS[1])
    redis.pcall('publish', ARGV[3], '0')
  end
  return op == 'init' and 1 or was
end
local gone = redis.call('del', KEYS[1])
if gone == 1 then
  if op == 'delete' then
    redis.pcall('publish', ARGV[3], '1')
  end
  redis.pcall('publish', ARGV[3], '0')
end
return op == 'delete' and gone or count or false
