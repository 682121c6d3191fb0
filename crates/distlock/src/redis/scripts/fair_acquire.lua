-- Takes a fair lock if it is the owner's turn, or a place in its queue; sets the depth of a hold, or passes a hold on.
-- KEYS  1 the lock   2 the queue   3 the timeouts
-- ARGV  1 owner   2 lease in ms   3 depth   4 patience in ms, 0 for a single try   5 channel   6 the owner it passes from;
--       absent unless it does
-- Returns nil: held now at this depth; n >= 0: busy, ask again in n ms if nobody calls; -1: something without a time to live
--         is in the way.
-- Mirrors Redisson's fair tryLockInnerAsync. Sets the count instead of adding to it; a head that does not come keeps its
-- place for seconds, not for minutes, and is not polled for without a pause.
local owner, lease, patience, channel, heir = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local ttl = redis.call('pttl', lock)
if ttl == -1 then
  return -1
end
local mine = ttl ~= -2 and redis.call('hexists', lock, owner) == 1
local passed = ttl ~= -2 and not mine and heir and redis.call('hexists', lock, heir) == 1
if mine or passed then
  -- The time to live first: if it is refused, nothing has changed yet. A step of the same stay never shortens it: this one may be
  -- late, and a later one may have been here before.
  if passed or lease > ttl then
    redis.call('pexpire', lock, lease)
  end
  redis.call('hset', lock, owner, ARGV[3])
  if passed then
    redis.call('hdel', lock, heir)
    redis.call('lrem', queue, 0, owner)
    redis.call('zrem', timeouts, owner)
  end
  return nil
end
local free = ttl == -2
ttl = math.max(ttl, 0)
if ARGV[3] ~= '1' or heir then
  return ttl
end

local head, dropped, queued, now = redis.call('lindex', queue, 0), false, false, nil
if head then
  now = clock()
  queued = patience > 0 and redis.call('lpos', queue, owner)
  if queued then
    -- Who asks is there, and does not lose its place by asking.
    redis.call('zadd', timeouts, 'gt', now + patience, owner)
  end
  head, dropped = drop_dead(now, channel, free and owner)
end
local first_in_line = not head or head == owner

if free and first_in_line then
  -- Taking it from the queue first: what is refused from here on leaves no lock behind.
  if head then
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, owner)
    close_up(0, patience, now + math.max(lease + patience, LEAST), {})
  end
  redis.call('hset', lock, owner, 1)
  local set = redis.pcall('pexpire', lock, lease)
  if type(set) == 'table' then
    -- Scripts do not roll back: without this a refused PEXPIRE leaves a lock for ever.
    redis.pcall('hdel', lock, owner)
    redis.pcall('del', lock)
    return set
  end
  if head then
    tell_first(lease, channel)
  end
  return nil
end

-- Before anybody's time is cut: it is added to.
local last = patience > 0 and not queued and redis.call('lindex', queue, -1)
local score = last and redis.call('zscore', timeouts, last)
local rest = ttl
if free then
  local first, absent = first_present(function(waiter)
    return waiter == owner or listens(waiter, channel)
  end)
  local latest, changed = cut(head, now + (absent > 0 and GRACE or ABSENCE), now)
  -- A call may have been lost, and a lease ends without one. Once for each change: this is no polling.
  if first and first ~= owner and (changed or dropped) then
    redis.pcall('publish', channel .. ':' .. first, '0')
  end
  rest = latest - now
elseif not first_in_line then
  if dropped then
    tell_first(ttl, channel)
  end
  rest = ttl + (patience > 0 and LATER or 0)
end

if patience == 0 then
  return rest
end
if not queued then
  now = now or clock()
  redis.call('zadd', timeouts, math.max(tonumber(score or 0), now + ttl) + patience, owner)
  local pushed = redis.pcall('rpush', queue, owner)
  if type(pushed) == 'table' then
    redis.call('zrem', timeouts, owner)
    return pushed
  end
  queued = pushed - 1
end
local recheck = queued < NEAR and RECHECK_NEAR or RECHECK
return math.min(rest, math.max(RECHECK_LEAST, math.min(recheck, math.floor(patience / 2))))
