-- What the scripts for read-write locks begin with; not a script by itself.
-- KEYS  1 the lock: a hash { mode: read | write, owner: depth of its reads, owner:write: depth of its writes }
-- ARGV  1 owner   2 what the keys of read holds begin with
-- A reader is there while one of its holds is, and these are keys of their own: the field of one that died stays behind
-- while others keep the lock, and counts for nothing.
local function hold(owner, n)
  return ARGV[2] .. owner .. ':rwlock_timeout:' .. n
end

-- How long a reader is there, in ms: as long as the longest of its holds. Negative if none is left.
local function stays(owner, depth)
  local longest = -2
  for n = 1, depth do
    longest = math.max(longest, redis.call('pttl', hold(owner, n)))
  end
  return longest
end

-- How long the readers are there: as long as the one that stays longest. Negative if none is left. Sweeps the dead ones.
local function readers_stay()
  local longest = -2
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    local depth = tonumber(fields[i + 1])
    local left = depth and stays(fields[i], depth)
    if left and left < 0 then
      redis.call('hdel', KEYS[1], fields[i])
    end
    longest = math.max(longest, left or -2)
  end
  return longest
end

-- Everybody who is there: { owner, depth, read | write, ... }, and for how long the readers are.
local function holders(mode)
  local found, longest = {}, -2
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    local field, depth = fields[i], tonumber(fields[i + 1])
    if depth and mode == 'write' and string.sub(field, -6) == ':write' then
      table.insert(found, string.sub(field, 1, -7))
      table.insert(found, fields[i + 1])
      table.insert(found, 'write')
    elseif depth then
      local left = stays(field, depth)
      if left >= 0 then
        table.insert(found, field)
        table.insert(found, fields[i + 1])
        table.insert(found, 'read')
      end
      longest = math.max(longest, left)
    end
  end
  return found, longest
end

local OTHER_KIND = 'WRONGTYPE another kind of lock stands under this name'

