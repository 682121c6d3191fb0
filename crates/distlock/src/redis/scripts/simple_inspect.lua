-- What stands under a name, at one moment.
-- KEYS  1 the lock
-- Returns { time to live in ms (-2 free, -1 none), the value }.
return { redis.call('pttl', KEYS[1]), redis.call('get', KEYS[1]) }
