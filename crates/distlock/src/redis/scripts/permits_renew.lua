-- Which owners still have their permits. These have no lease, so there is nothing to renew.
-- KEYS  the permits left, who has how many; a pair per claim
-- ARGV  the owners, in the same order
-- Returns an array: 1 has them, 0 not any more, or the error that this one entry met.
local answers = {}
for i, owner in ipairs(ARGV) do
  local held = redis.pcall('hexists', KEYS[2 * i], owner)
  if held == 1 then
    held = redis.pcall('exists', KEYS[2 * i - 1])
  end
  answers[i] = held
end
return answers
