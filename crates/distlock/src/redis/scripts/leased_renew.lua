-- Gives every hold all of whose permits are still out a new lease.
-- KEYS  the permits left, when those that are out expire; a pair per hold
-- ARGV  lease in ms, number of permits, their ids; for each hold, in the same order
-- Returns an array: 1 renewed, 0 some are gone, or the error that this one entry met.
-- Mirrors Redisson's updateLeaseTime; one bad entry does not stop the rest.
local now = clock()
local function renew(left, out, first, last, score)
  local _, live = look(out, first, last, now)
  if live < last - first + 1 or redis.call('exists', left) == 0 then
    return 0
  end
  lease(out, 'XX', first, last, score)
  return 1
end

local answers, at = {}, 1
for i = 1, #KEYS, 2 do
  local last = at + 1 + ARGV[at + 1]
  local fine, answer = pcall(renew, KEYS[i], KEYS[i + 1], at + 2, last, now + ARGV[at])
  if not fine and type(answer) ~= 'table' then
    -- Redis before 7 raises a text.
    answer = redis.error_reply('ERR ' .. tostring(answer))
  end
  answers[#answers + 1] = answer
  at = last + 1
end
return answers
