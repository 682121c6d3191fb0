-- Whether a latch is open. Nothing is held afterwards, and nothing written.
-- KEYS  1 the count
-- Returns nil: open; n: not yet, and no time after which it would be.
-- Mirrors the test in Redisson's await.
local count = number(KEYS[1])
if count and count > 0 then
  return 922337203685477
end
return nil
