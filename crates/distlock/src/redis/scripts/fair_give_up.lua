-- Forgets an owner: its place in the queue, and its hold if it has one. If the lock is free then, calls the next.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- ARGV  1 owner   2 patience in ms   3 channel
-- Returns 0. Doing it twice does no harm.
-- Mirrors Redisson's acquireFailedAsync, which takes the owner's patience off the times of those behind it, and so may move
-- them into the past.
local owner, patience, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local now = clock()
local head, left = drop_dead(now, channel)
local place = head and redis.call('lpos', queue, owner)
left = redis.call('hdel', lock, owner) == 1 or left
local ttl = redis.call('pttl', lock)
if place then
  local before = {}
  for _, waiter in ipairs(redis.call('lrange', queue, 0, place)) do
    before[waiter] = true
  end
  redis.call('lrem', queue, 0, owner)
  redis.call('zrem', timeouts, owner)
  close_up(place, patience, now + math.max(math.max(ttl, 0) + patience, LEAST), before)
  left = true
end
-- Whoever was called and leaves passes the call on.
if left and ttl == -2 then
  call_next(now, channel)
elseif left then
  tell_first(ttl, channel)
end
return 0
