-- What is around a lock, for people: how many listen to it, and what its holders say of themselves.
-- KEYS  1 the hash in which that is kept
-- ARGV  1 the channel; empty if nobody listens   2... fields of the hash
-- Returns { how many, -1 if that cannot be told, -2 if it may not be asked, { text or nil, ... } }.
-- Redisson has none.
local texts = #ARGV > 1 and redis.call('hmget', KEYS[1], unpack(ARGV, 2)) or {}
local listening = -1
if ARGV[1] ~= '' then
  local counted = redis.pcall('pubsub', 'numsub', ARGV[1])
  listening = counted.err and -2 or tonumber(counted[2] or -2)
end
return { listening, texts }
