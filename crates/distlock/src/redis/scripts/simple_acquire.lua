-- Takes a lock that is a plain value, sets its lease anew, or passes it on.
-- KEYS  1 the lock
-- ARGV  1 owner   2 lease in ms   3 depth, which is not kept   4 the owner it passes from; absent unless it does
-- Returns nil: held now; n >= 0: busy for n ms; -1: a value without a time to live is in the way.
-- The format of redis-py's Lock, redsync, node-redlock and every hand-made `SET NX PX` lock.
if ARGV[3] == '1' and not ARGV[4] and redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return nil
end
local value = redis.call('get', KEYS[1])
if value == ARGV[1] then
  -- Never to less: this step may be late, and a later one of the same stay may have been here before.
  if tonumber(ARGV[2]) > redis.call('pttl', KEYS[1]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return nil
end
if value and value == ARGV[4] then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return nil
end
return value and redis.call('pttl', KEYS[1]) or 0
