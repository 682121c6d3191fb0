-- What stands under a name, at one moment.
-- KEYS  1 the lock
-- Returns { time to live in ms (-2 free, -1 none), { owner, depth, ... } }.
-- Mirrors Redisson's isLocked, getHoldCount and remainTimeToLive in one step.
return { redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[1]) }
