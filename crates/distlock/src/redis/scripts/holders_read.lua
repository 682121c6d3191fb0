-- What is around a lock, for people: how many listen to it, and what its holders say of themselves.
-- KEYS  1 the hash in which that is kept
-- ARGV  1 the channel; empty if nobody listens   2... fields of the hash
-- Returns { how many, or -1 if that cannot be told, { text or nil, ... } }.
-- Redisson has none.
local listening = -1
if ARGV[1] ~= '' then
  local counted = redis.pcall('pubsub', 'numsub', ARGV[1])
  listening = tonumber(counted[2] or -1)
end
local texts = {}
if #ARGV > 1 then
  texts = redis.pcall('hmget', KEYS[1], unpack(ARGV, 2))
end
return { listening, texts.err and {} or texts }
