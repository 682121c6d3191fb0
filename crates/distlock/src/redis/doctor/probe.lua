-- Tries every command that locks take, in a way that changes nothing, and says which are refused. Not one of `scripts/`: no lock
-- runs it.
-- KEYS  1 a key that nobody uses
-- ARGV  1 classic | sharded | both   2 how many keys follow   then keys that belong to the first, then channels that nobody hears
-- Returns { what, why, ... }: a command, key or channel and the error it met. Most errors are meant: an argument is wrong on purpose
--         where the command would write. Permissions are looked at before arguments.
local key, way, refused = KEYS[1], ARGV[1], {}
local function try(what, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    refused[#refused + 1] = what
    refused[#refused + 1] = reply.err
    return false
  end
  return true
end
local harmless = {
  { 'exists', key }, { 'get', key }, { 'hdel', key, 'x' }, { 'hexists', key, 'x' }, { 'hget', key, 'x' }, { 'hgetall', key },
  { 'hlen', key }, { 'hmget', key, 'x' }, { 'lindex', key, 0 }, { 'lpop', key }, { 'lpos', key, 'x' }, { 'lrange', key, 0, 0 },
  { 'lrem', key, 0, 'x' }, { 'pttl', key }, { 'time' }, { 'zcard', key }, { 'zcount', key, 0, 0 }, { 'zmscore', key, 'x' },
  { 'zrange', key, 0, 0 }, { 'zrangebyscore', key, 0, 0 }, { 'zrem', key, 'x' }, { 'zremrangebyrank', key, 0, 0 },
  { 'zscore', key, 'x' },
  -- With an argument that is refused.
  { 'decrby', key, 'x' }, { 'hset', key, 'x', 'x', 'x' }, { 'incrby', key, 'x' }, { 'pexpire', key, 'x' }, { 'set', key, 'x', 'x' },
  { 'zadd', key, 'x', 'x' },
}
for _, command in ipairs(harmless) do
  try(command[1], unpack(command))
end
if try('del', 'del', key) then
  -- These write whatever they are given; what they write goes before anybody can see it.
  for _, command in ipairs({ { 'decr', key }, { 'hsetnx', key, 'x', 'x' }, { 'rpush', key, 'x' } }) do
    try(command[1], unpack(command))
    redis.pcall('del', key)
  end
end
if way ~= 'sharded' then
  try('pubsub|numsub', 'pubsub', 'numsub', key)
end
if way ~= 'classic' then
  try('pubsub|shardnumsub', 'pubsub', 'shardnumsub', key)
end
local keys = tonumber(ARGV[2])
for i = 3, 2 + keys do
  try(ARGV[i], 'pttl', ARGV[i])
end
for i = 3 + keys, #ARGV do
  if way ~= 'sharded' then
    try(ARGV[i], 'publish', ARGV[i], '')
  end
  if way ~= 'classic' then
    try(ARGV[i], 'spublish', ARGV[i], '')
  end
end
return refused
