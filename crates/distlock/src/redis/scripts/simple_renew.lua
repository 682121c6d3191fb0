-- Sets the time to live of every lock that is a plain value and that its owner still has; never to less, because a late renewal may
-- come after a later one.
-- KEYS  the locks
-- ARGV  owner, lease in ms; a pair per lock, in the same order
-- Returns an array: 1 renewed, 0 not held any more, or the error that this one entry met.
-- What redis-py calls `reacquire`, for many; one bad entry does not stop the rest.
local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('get', key)
  if type(value) == 'table' then
    answers[i] = value
  elseif value == ARGV[2 * i - 1] then
    local ttl = redis.pcall('pttl', key)
    if type(ttl) == 'table' then
      answers[i] = ttl
    elseif tonumber(ARGV[2 * i]) > ttl then
      answers[i] = redis.pcall('pexpire', key, ARGV[2 * i])
    else
      answers[i] = 1
    end
  else
    answers[i] = 0
  end
end
return answers
