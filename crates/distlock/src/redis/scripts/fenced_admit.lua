-- Shows a fencing token to a gate.
-- KEYS  1 the highest token seen
-- ARGV  1 the token, a decimal number without leading zeros
-- Returns 1: not older than any before, and kept; else minus the highest seen, or -2^53 if that is beyond it.
-- Redisson has none: it leaves the checking side to its users.
local seen = redis.call('get', KEYS[1]) or '0'
if not string.find(seen, '^%d+$') then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is no fence')
end
-- Compared as text: Lua's numbers have gaps beyond 2^53.
if #ARGV[1] > #seen or #ARGV[1] == #seen and ARGV[1] >= seen then
  redis.call('set', KEYS[1], ARGV[1])
  return 1
end
return -math.min(tonumber(seen), 9007199254740992)
