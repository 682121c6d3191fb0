-- Takes a lock, sets the depth of a hold, or passes a hold on; each time with a new fencing token.
-- KEYS  1 the lock   2 the last token
-- ARGV  1 owner   2 lease in ms   3 depth   4 the owner it passes from; absent unless it does
-- Returns a text: held now at this depth, with this token; n >= 0: busy for n ms; -1: something without a time to live is
--         in the way.
-- Mirrors Redisson's tryAcquireAndGetToken. The token is also not below the server's time in ms, so that tokens go on
-- rising when the counter is lost; Redisson's INCR continues from it.
local ttl = redis.call('pttl', KEYS[1])
local mine, heir
if ttl == -2 then
  if ARGV[3] ~= '1' or ARGV[4] then
    return 0
  end
else
  mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
  heir = not mine and ARGV[4] and redis.call('hexists', KEYS[1], ARGV[4]) == 1
  if not mine and not heir then
    return ttl
  end
end
local last = tonumber(redis.call('get', KEYS[2]) or 0)
-- Beyond 2^53 Lua's numbers have gaps, and two tokens could be equal.
if not last or last >= 9007199254740991 then
  return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is no counter of fencing tokens')
end
local time = redis.call('time')
local token = string.format('%.0f', math.max(time[1] * 1000 + math.floor(time[2] / 1000), last + 1))
-- The counter first: if it is refused, nothing has changed; if what follows is refused, a token was left out.
redis.call('set', KEYS[2], token)
if ttl == -2 then
  redis.call('hset', KEYS[1], ARGV[1], 1)
  local set = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if type(set) == 'table' then
    -- Scripts do not roll back: without this a refused PEXPIRE leaves a lock for ever.
    redis.pcall('hdel', KEYS[1], ARGV[1])
    redis.pcall('del', KEYS[1])
    return set
  end
  return token
end
-- The time to live first: if it is refused, the hold is as it was. A step of the same stay never shortens it: this one may be late,
-- and a later one may have been here before.
if heir or tonumber(ARGV[2]) > ttl then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
if heir then
  redis.call('hdel', KEYS[1], ARGV[4])
end
return token
