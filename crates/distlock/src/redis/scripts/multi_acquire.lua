-- Takes several locks, all or none.
-- KEYS  the locks, then the last token of each fenced one, in the same order
-- ARGV  1 how many locks   2 lease in ms   then per lock: owner, '1' if it is fenced else '0'
-- Returns { 1, token or 0 per lock }: all are held; { 0, i, n }: lock i is busy for n ms, or (-1) something without a time to
--         live is in the way there; none was taken.
-- Mirrors what Redisson's multi-lock does in as many steps as there are locks, and fenced_acquire for the tokens.
local count, left = tonumber(ARGV[1]), {}
for i = 1, count do
  local ttl = redis.call('pttl', KEYS[i])
  -- The owner's own means that an earlier answer was lost.
  if ttl ~= -2 and redis.call('hexists', KEYS[i], ARGV[2 * i + 1]) == 0 then
    return { 0, i, ttl }
  end
  left[i] = ttl
end
-- The counters first: if one is refused, nothing is held; if what follows is refused, tokens were left out.
local answer = { 1 }
local counter = count
local now
for i = 1, count do
  answer[i + 1] = 0
  if ARGV[2 * i + 2] == '1' then
    counter = counter + 1
    now = now or redis.call('time')
    local last = tonumber(redis.call('get', KEYS[counter]) or 0)
    -- Beyond 2^53 Lua's numbers have gaps, and two tokens could be equal.
    if not last or last >= 9007199254740991 then
      return redis.error_reply('WRONGTYPE ' .. KEYS[counter] .. ' is no counter of fencing tokens')
    end
    local token = math.max(now[1] * 1000 + math.floor(now[2] / 1000), last + 1)
    redis.call('set', KEYS[counter], string.format('%.0f', token))
    answer[i + 1] = string.format('%.0f', token)
  end
end
for i = 1, count do
  redis.call('hset', KEYS[i], ARGV[2 * i + 1], 1)
  -- Never to less than the same stay has: this step may be late.
  local set = tonumber(ARGV[2]) > left[i] and redis.pcall('pexpire', KEYS[i], ARGV[2])
  if type(set) == 'table' then
    -- Scripts do not roll back: all that was taken so far is given up.
    for taken = 1, i do
      redis.pcall('hdel', KEYS[taken], ARGV[2 * taken + 1])
      redis.pcall('del', KEYS[taken])
    end
    return set
  end
end
return answer
