-- Forgets a gate.
-- KEYS  1 the highest token seen
-- Returns 1 if there was one, else 0.
return redis.call('del', KEYS[1])
