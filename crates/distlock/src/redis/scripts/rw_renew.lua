-- Sets the time to live of every read or write hold that its owner still has; never to less, because a late renewal may come after
-- a later one.
-- KEYS  the locks
-- ARGV  owner, what the keys of read holds begin with, lease in ms, read | write; four per lock, in the same order
-- Returns an array: 1 renewed, 0 not held any more, or the error that this one entry met.
-- Mirrors Redisson's renewal of read locks, but renews what the owner has and nobody else's; and its renewal of write
-- locks, but never below what the writer reads. One bad entry does not stop the rest.
local function renew(lock, owner, begins, lease, half)
  local found = redis.pcall('hmget', lock, owner, owner .. ':write')
  if found.err then
    return found
  end
  local least = tonumber(lease)
  local reads, there = tonumber(found[1] or 0) or 0, 0
  for n = 1, reads do
    local hold = begins .. owner .. ':rwlock_timeout:' .. n
    local left = redis.pcall('pttl', hold)
    if type(left) == 'table' then
      return left
    end
    if half == 'read' and left >= 0 then
      local set = least > left and redis.pcall('pexpire', hold, lease)
      if type(set) == 'table' then
        return set
      end
      there = 1
    elseif half == 'write' then
      least = math.max(least, left)
    end
  end
  if half == 'read' then
    if there == 0 then
      return 0
    end
  elseif not found[2] then
    return 0
  end
  -- Others may need the lock for longer.
  local ttl = redis.pcall('pttl', lock)
  if type(ttl) == 'table' or ttl >= least then
    return type(ttl) == 'table' and ttl or 1
  end
  return redis.pcall('pexpire', lock, least)
end

local answers = {}
for i, lock in ipairs(KEYS) do
  local at = 4 * i
  answers[i] = renew(lock, ARGV[at - 3], ARGV[at - 2], ARGV[at - 1], ARGV[at])
end
return answers
