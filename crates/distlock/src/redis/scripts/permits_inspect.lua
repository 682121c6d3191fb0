-- What stands under a name, at one moment.
-- KEYS  1 the permits left   2 who has how many
-- Returns { permits left or nil, time to live in ms (negative: none), { owner, count, ... } }.
return { number(KEYS[1]) or false, redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[2]) }
