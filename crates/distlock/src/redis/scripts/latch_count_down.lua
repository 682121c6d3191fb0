-- Counts down by one; at zero the latch is open and everybody who listens is told.
-- KEYS  1 the count   2 the answer to this count-down
-- ARGV  1 channel   2 how long the answer is remembered, in ms
-- Returns the count after it.
-- Mirrors Redisson's countDown; the answer is remembered, so that doing it twice does no harm. It outlives the latch: a
-- count-down that is sent again must not count for the next latch of that name.
local before = number(KEYS[2])
if before then
  return before
end
local count = number(KEYS[1])
if not count then
  return 0
end
if count <= 0 then
  redis.call('del', KEYS[1])
  return 0
end
redis.call('set', KEYS[2], count - 1, 'PX', ARGV[2])
local done
if count > 1 then
  done = redis.pcall('decr', KEYS[1])
else
  done = redis.pcall('del', KEYS[1])
end
if type(done) == 'table' then
  -- Scripts do not roll back: what was not counted must not be remembered.
  redis.pcall('del', KEYS[2])
  return done
end
if count == 1 then
  redis.pcall('publish', ARGV[1], '0')
end
return count - 1
