-- Stands before the scripts of leased semaphores: the time, and permits by their ids, which are arguments.
local FOREVER = 922337203685477
-- How many ids one command gets: unpack takes some thousands at most.
local CHUNK = 1000

-- Milliseconds by the server's clock, which all clients share.
local function clock()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The scores of the permits ARGV[first] to ARGV[last], false for one that is not out; and how many have not expired.
local function look(key, first, last, now)
  local scores, live = {}, 0
  for from = first, last, CHUNK do
    local to = math.min(from + CHUNK - 1, last)
    for _, score in ipairs(redis.call('zmscore', key, unpack(ARGV, from, to))) do
      scores[#scores + 1] = score
      if score and tonumber(score) > now then
        live = live + 1
      end
    end
  end
  return scores, live
end

-- Sets when the permits ARGV[first] to ARGV[last] expire, of those that are out (XX) or that are not (NX): how many are new. Of those
-- that are out never to an earlier time: a late step may come after a later one.
local function lease(key, which, first, last, score)
  local new = 0
  for from = first, last, CHUNK do
    local args = { which }
    if which == 'XX' then
      args[2] = 'GT'
    end
    for i = from, math.min(from + CHUNK - 1, last) do
      args[#args + 1] = score
      args[#args + 1] = ARGV[i]
    end
    new = new + redis.call('zadd', key, unpack(args))
  end
  return new
end

-- Removes the permits ARGV[first] to ARGV[last]: how many were out.
local function remove(key, first, last)
  local removed = 0
  for from = first, last, CHUNK do
    removed = removed + redis.call('zrem', key, unpack(ARGV, from, math.min(from + CHUNK - 1, last)))
  end
  return removed
end
