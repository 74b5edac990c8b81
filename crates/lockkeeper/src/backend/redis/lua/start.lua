local call,sub,byte,up,pk=redis.call,string.sub,string.byte,struct.unpack,struct.pack
-- A full server refuses what may take memory, unless the script has written before. What is held is to live on there, and
-- to be released: nothing is removed from Q, and then it is tried again (a key of another
-- kind does as well). Whatever else is wrong is said again.
local function spare(Q,...)
  local said=redis.pcall(...)
  if type(said)=='table' and said.err then
    redis.pcall('ZREM',Q,'')
    return call(...)
  end
end
