-- Gives permits back and tells everybody who listens.
-- KEYS  1 the permits left   2 when those that are out expire
-- ARGV  1 channel   2 'list': all of them or none; 'hold': whatever is left of a hold   3... their ids
-- Returns  list: how many; 0 if one of them is unknown or has expired
--          hold: n >= 0 all given back, n heard of it; -1 some were gone; -3 given back, but telling anybody was refused
-- Mirrors Redisson's tryRelease of a list. Who lets go of a hold that is partly gone has no use for the rest.
local list = ARGV[2] == 'list'
if not number(KEYS[1]) then
  -- The semaphore was deleted, and its permits with it.
  redis.call('del', KEYS[2])
  return list and 0 or -1
end
local scores, live = look(KEYS[2], 3, #ARGV, clock())
local all = live == #ARGV - 2
if list and not all then
  return 0
end
-- The ids first: this works when the server is out of memory, and after it so does the rest.
local removed = remove(KEYS[2], 3, #ARGV)
if removed == 0 then
  return list and 0 or -1
end
local left = redis.pcall('incrby', KEYS[1], removed)
if type(left) == 'table' then
  for i, score in ipairs(scores) do
    if score then
      redis.pcall('zadd', KEYS[2], score, ARGV[2 + i])
    end
  end
  return left
end
local heard = left > 0 and redis.pcall('publish', ARGV[1], left) or 0
if list then
  return removed
end
if not all then
  return -1
end
return type(heard) == 'table' and -3 or heard
