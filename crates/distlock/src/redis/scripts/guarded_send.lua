-- Runs a command if a lock is still held by an owner.
-- KEYS  1 the lock   2... the command's keys
-- ARGV  1 how to look: hexists (a field), hget (a reader's field) or get (the whole value)   2 the owner as it stands there
--       3 what the keys of read holds begin with   4 the command   5 a letter per argument of it: k is the next key, a the
--       next of those that follow   6... the arguments that are no keys
-- Returns { 1, reply }: held, and it ran; { 2, text }: held, but the server refuses the command; 0: not held any more.
-- Redisson has none. Looking and running are one step: nobody can take the lock in between.
local found
if ARGV[1] == 'get' then
  found = redis.pcall('get', KEYS[1])
else
  found = redis.pcall(ARGV[1], KEYS[1], ARGV[2])
end
if type(found) == 'table' then
  -- Another type stands there: the lock is gone. But not being allowed to look is no answer.
  if string.find(found.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return found
end
local held = found == 1 or found == ARGV[2]
if ARGV[1] == 'hget' and found then
  -- The field outlives its holds while others read: one of them must be alive.
  for n = 1, tonumber(found) or 0 do
    held = held or redis.call('exists', ARGV[3] .. ARGV[2] .. ':rwlock_timeout:' .. n) == 1
  end
end
if not held then
  return 0
end
local command, key, arg = { ARGV[4] }, 1, 5
for letter in string.gmatch(ARGV[5], '.') do
  if letter == 'k' then
    key = key + 1
    command[#command + 1] = KEYS[key]
  else
    arg = arg + 1
    command[#command + 1] = ARGV[arg]
  end
end
local reply = redis.pcall(unpack(command))
if type(reply) == 'table' and reply.err then
  return { 2, reply.err }
end
return { 1, reply }
