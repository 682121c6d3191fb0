-- Before scripts for a cluster in which some listen to plain channels and some to sharded ones: both are told, and both count.
local function either(plain, sharded)
  if type(plain) == 'table' then
    return sharded
  end
  return type(sharded) == 'table' and plain or plain + sharded
end
local function publish(channel, message)
  return either(redis.pcall('publish', channel, message), redis.pcall('spublish', channel, message))
end
local function numsub(channel)
  local plain, sharded = redis.pcall('pubsub', 'numsub', channel), redis.pcall('pubsub', 'shardnumsub', channel)
  local count = either(plain[2] or plain, sharded[2] or sharded)
  return { channel, type(count) == 'number' and count or nil }
end
