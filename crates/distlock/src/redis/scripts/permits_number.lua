-- Stands before the scripts of semaphores and latches: the number under a key, nil if there is none.
-- Something that is no whole number is somebody's data, and so is one that Lua does not count exactly: an error, raised
-- before anything is written.
local function number(key)
  local text = redis.call('get', key)
  if not text then
    return nil
  end
  if #text > 17 or not (text == '0' or string.find(text, '^%-?[1-9]%d*$')) then
    error('WRONGTYPE this is no number')
  end
  return tonumber(text)
end
