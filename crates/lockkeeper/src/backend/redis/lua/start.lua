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
-- The same for what may be refused on a full server.
local function skipped(_,...) return call(...) end
-- Every command was tried before it comes here, so none is refused. If one is, half of it is done, and that is said.
local function must(...)
  local said=redis.pcall(...)
  if type(said)=='table' and said.err then error('lockkeeper half-way ('..said.err..')',0) end
end
local function each(command,key,list,from)
  for i=from,#list,1000 do must(command,key,unpack(list,i,math.min(i+999,#list))) end
end
-- Does something with one line of several: what is wrong with it is told of that one, and concerns no other.
local function apart(f,...)
  local done,said=pcall(f,...)
  if done then return said end
  return {err=type(said)=='table' and said.err or 'ERR Error running script: '..said}
end
-- Byte 17 of what K holds is the layout, times 16, and the form.
local function form(r) return byte(r,17) end
-- What K holds. Whatever this layout is not is refused, never misread: by the number of its layout, or, where no version
-- of ours has written it, by 0 and what it is. Each layout begins with the last token, a whole number.
local function fetch(K)
  local r=redis.pcall('GET',K)
  if not r then return r end
  if type(r)=='table' then
    if not string.find(r.err,'wrong kind of value',1,true) then return call('GET',K) end
    error('lockkeeper layout 0 (a value that is no string)',0)
  end
  local last,f=#r>=8 and up('<d',r) or -1,form(r)
  local ours=last>=0 and last<=9007199254740992 and last%1==0
  if ours and (#r==8 or f==17 and #r>=77 and up('<I4',r,54)==#r-57 or f==16 and #r==104) then return r end
  local layout=ours and f and math.floor(f/16) or 0
  error('lockkeeper layout '..(layout==1 and 0 or layout)..' (a string of '..#r..' bytes)',0)
end
