-- Gives back the permits of every owner that is known, and tells everybody who listens.
-- KEYS  1 the permits left   2 who has how many
-- ARGV  1 channel
-- Returns what stood there before, as permits_inspect does.
-- Redisson has nothing like it: it does not know who has permits.
local left = number(KEYS[1])
local before = { left or false, redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[2]) }
local fields, back = before[3], 0
for i = 2, #fields, 2 do
  back = back + (tonumber(fields[i]) or 0)
end
redis.call('del', KEYS[2])
if left and back > 0 then
  left = redis.pcall('incrby', KEYS[1], back)
  if type(left) == 'table' then
    for i = 1, #fields, 2 do
      redis.pcall('hset', KEYS[2], fields[i], fields[i + 1])
    end
    return left
  end
  if left > 0 then
    redis.pcall('publish', ARGV[1], left)
  end
end
return before
