-- Takes back every permit that is out, and tells everybody who listens.
-- KEYS  1 the permits left   2 when those that are out expire
-- ARGV  1 channel
-- Returns what stood there before, as leased_inspect does.
-- Redisson has nothing like it.
local left = number(KEYS[1])
if not left then
  redis.call('del', KEYS[2])
  return { false, -1, {} }
end
local now = clock()
local all = redis.call('zrange', KEYS[2], 0, -1, 'WITHSCORES')
local out, soonest = {}, -1
for i = 1, #all, 2 do
  local score = tonumber(all[i + 1])
  if score > now then
    if #out == 0 and score < FOREVER then
      soonest = score - now
    end
    out[#out + 1] = all[i]
  end
end
local before = { left + #all / 2 - #out, soonest, out }
-- The ids first: this works when the server is out of memory, and after it so does the rest.
if redis.call('del', KEYS[2]) == 1 then
  left = redis.pcall('incrby', KEYS[1], #all / 2)
  if type(left) == 'table' then
    for i = 1, #all, 2 do
      redis.pcall('zadd', KEYS[2], all[i + 1], all[i])
    end
    return left
  end
  if left > 0 then
    redis.pcall('publish', ARGV[1], left)
  end
end
return before
