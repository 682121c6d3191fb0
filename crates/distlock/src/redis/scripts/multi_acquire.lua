-- Takes several locks, all or none.
-- KEYS  the locks, then the token counter of each fenced one, in the same order
-- ARGV  1 how many locks   2 lease in ms   then per lock: owner, '1' if it is fenced else '0'
-- Returns { 1, token or 0 per lock }: all are held; { 0, i, n }: lock i is busy for n ms, none was taken.
-- Mirrors what Redisson's multi-lock does in as many steps as there are locks.
local count = tonumber(ARGV[1])
for i = 1, count do
  local ttl = redis.call('pttl', KEYS[i])
  -- The owner's own means that an earlier answer was lost.
  if ttl ~= -2 and redis.call('hexists', KEYS[i], ARGV[2 * i + 1]) == 0 then
    return { 0, i, ttl }
  end
end
local answer = { 1 }
local counter = count
local now = redis.call('time')
for i = 1, count do
  redis.call('hset', KEYS[i], ARGV[2 * i + 1], 1)
  local set = redis.pcall('pexpire', KEYS[i], ARGV[2])
  if type(set) == 'table' then
    -- Scripts do not roll back: all that was taken so far is given up.
    for taken = 1, i do
      redis.pcall('hdel', KEYS[taken], ARGV[2 * taken + 1])
    end
    return set
  end
  answer[i + 1] = 0
  if ARGV[2 * i + 2] == '1' then
    counter = counter + 1
    local last = tonumber(redis.call('get', KEYS[counter]) or '0')
    local token = math.max(last + 1, now[1] * 1000 + math.floor(now[2] / 1000))
    redis.call('set', KEYS[counter], string.format('%.0f', token))
    answer[i + 1] = token
  end
end
return answer
