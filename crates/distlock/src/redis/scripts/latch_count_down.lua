-- Counts down by one; at zero the latch is open and everybody who listens is told.
-- KEYS  1 the count   2 the count-downs that were done
-- ARGV  1 who asks, the same for every time that it is sent   2 channel   3 how long that is remembered, in ms
-- Returns the count after it.
-- Mirrors Redisson's countDown; remembers who asked, so that doing it twice does no harm. What is remembered outlives the
-- latch, or else a count-down that is sent again could count for the next latch of that name.
local count = number(KEYS[1])
if redis.call('sismember', KEYS[2], ARGV[1]) == 1 then
  return math.max(0, count or 0)
end
if not count then
  return 0
end
if count <= 0 then
  redis.call('del', KEYS[1])
  return 0
end
redis.call('sadd', KEYS[2], ARGV[1])
local done = redis.pcall('pexpire', KEYS[2], ARGV[3])
if type(done) ~= 'table' then
  if count > 1 then
    done = redis.pcall('decr', KEYS[1])
  else
    done = redis.pcall('del', KEYS[1])
  end
end
if type(done) == 'table' then
  -- Scripts do not roll back: what was not counted must not be remembered.
  redis.pcall('srem', KEYS[2], ARGV[1])
  return done
end
if count == 1 then
  redis.pcall('publish', ARGV[2], '0')
end
return count - 1
