-- Frees a lock that is a plain value, if the owner still has it; nobody is told, whoever waits asks again.
-- KEYS  1 the lock
-- ARGV  1 owner   2 depth; only 0 frees
-- Returns 0: free now; -1: was not held by the owner; -2: still held.
-- The release script of the Redis manual's lock pattern, as redis-py, redsync and node-redlock have it.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return -1
end
if ARGV[2] ~= '0' then
  return -2
end
redis.call('del', KEYS[1])
return 0
