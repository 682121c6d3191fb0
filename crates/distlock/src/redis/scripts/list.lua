-- Which of these keys look like held locks.
-- KEYS  the candidates
-- ARGV  1 the most fields that a lock has   2 the same for a read-write lock
-- Returns an array: what exclusive_inspect returns, or false for a key that is no lock.
local answers = {}
for i, key in ipairs(KEYS) do
  local ttl = redis.call('pttl', key)
  local fields = ttl >= 0 and redis.pcall('hlen', key)
  -- Another type is somebody's data; but not being allowed to look is an answer.
  if type(fields) == 'table' and not string.find(fields.err, 'WRONGTYPE', 1, true) then
    return fields
  end
  -- A big hash is somebody's data: do not read all of it.
  local few = type(fields) == 'number' and fields <= tonumber(ARGV[2])
  if few and (fields <= tonumber(ARGV[1]) or redis.call('hexists', key, 'mode') == 1) then
    answers[i] = { ttl, redis.call('hgetall', key) }
  else
    answers[i] = false
  end
end
return answers
