-- Gives back an owner's permits and tells everybody who listens.
-- KEYS  1 the permits left   2 who has how many
-- ARGV  1 owner   2 channel   3 for how many ms to remember that the owner gave up; absent unless that is needed
-- Returns n >= 0: given back, n heard of it; -1: the owner has none; -3: given back, but telling anybody was refused.
-- Mirrors Redisson's release; gives back what the owner's field says, and only once.
local left = number(KEYS[1])
if ARGV[3] then
  -- Not being allowed to is no reason to keep the permits.
  redis.pcall('set', KEYS[2] .. ':' .. ARGV[1], '1', 'PX', ARGV[3])
end
if not left then
  -- The semaphore was deleted, and its permits with it.
  redis.call('del', KEYS[2])
  return -1
end
local count = redis.call('hget', KEYS[2], ARGV[1])
if not count then
  return -1
end
-- The field first: this works when the server is out of memory, and after it so does the rest.
redis.call('hdel', KEYS[2], ARGV[1])
left = redis.pcall('incrby', KEYS[1], count)
if type(left) == 'table' then
  redis.pcall('hset', KEYS[2], ARGV[1], count)
  return left
end
if left <= 0 then
  return 0
end
local heard = redis.pcall('publish', ARGV[2], left)
if type(heard) == 'table' then
  return -3
end
return heard
