-- Around a step whose holders say who they are: that is kept in `{lock}:distlock_holders`, in the same step and for as long.
-- KEYS  those of the step, then for each claim the hash in which it is kept
-- ARGV  those of the step; then for each claim   1 which of KEYS is the lock; 0 if that has no time to live of its own   2 its field
--       3 what it says   4 for how many ms that is kept if the lock does not tell   5 the field that it passes from, or nothing;
--       then acquire | all | renew | release | force, and how many claims
-- Returns what the step returns. A command that is refused beside it costs nobody a lock, hence pcall.
-- Redisson has none, and never looks.
local doing, count = ARGV[#ARGV - 1], tonumber(ARGV[#ARGV])
local keys, args = {}, {}
for i = 1, #KEYS - count do
  keys[i] = KEYS[i]
end
for i = 1, #ARGV - 2 - 5 * count do
  args[i] = ARGV[i]
end
local function step(KEYS, ARGV)
-- THE STEP
end
local answer = step(keys, args)
if type(answer) == 'table' and answer.err then
  return answer
end

local function number(reply)
  return type(reply) == 'number' and reply or 0
end
-- What has no time to live must not stay.
local function expire(hash, ttl)
  if type(redis.pcall('pexpire', hash, ttl)) == 'table' then
    redis.pcall('del', hash)
  end
end
local function holds(i)
  if doing == 'acquire' then
    return not answer or type(answer) == 'string'
  end
  return doing == 'all' and answer[1] == 1 or doing == 'renew' and answer[i] == 1
end

for i = 1, count do
  local at = #args + 5 * (i - 1)
  local hash, lock, field = KEYS[#keys + i], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2]
  local ttl = lock and number(redis.pcall('pttl', lock)) or 0
  if doing == 'force' then
    -- Of a read-write lock the other half may be held on.
    if ttl == -2 then
      redis.pcall('del', hash)
    end
  elseif doing == 'release' then
    redis.pcall('hdel', hash, field)
    if ttl > 0 then
      -- Those who stay may stay for less.
      expire(hash, ttl)
    end
  elseif holds(i) then
    if ARGV[at + 5] ~= '' then
      redis.pcall('hdel', hash, ARGV[at + 5])
    end
    redis.pcall('hset', hash, field, ARGV[at + 3])
    if ttl <= 0 then
      ttl = math.max(number(redis.pcall('pttl', hash)), tonumber(ARGV[at + 4]))
    end
    expire(hash, ttl)
  end
end
return answer
