-- The count of a latch.
-- KEYS  1 the count
-- Returns the count, nil if there is none.
-- Mirrors Redisson's getCount.
return number(KEYS[1]) or false
