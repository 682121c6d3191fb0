-- Sets the time to live of every lock that its owner still holds; never to less, because a late renewal may come after a later one.
-- KEYS  the locks
-- ARGV  owner, lease in ms; a pair per lock, in the same order
-- Returns an array: 1 renewed, 0 not held any more, or the error that this one entry met.
-- Mirrors Redisson's batched renewal; one bad entry does not stop the rest.
local answers = {}
for i, key in ipairs(KEYS) do
  local held = redis.pcall('hexists', key, ARGV[2 * i - 1])
  if held == 1 then
    local ttl = redis.pcall('pttl', key)
    if type(ttl) == 'table' then
      held = ttl
    elseif tonumber(ARGV[2 * i]) > ttl then
      held = redis.pcall('pexpire', key, ARGV[2 * i])
    end
  end
  answers[i] = held
end
return answers
