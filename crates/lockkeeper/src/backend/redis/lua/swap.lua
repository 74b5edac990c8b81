-- SWAP, of a register. KEYS: its key. ARGV: expected version | writer | value.
-- Answers 1, or what is there instead: version, number of writers, the writers, newest first, value.
local call,sub,up=redis.call,string.sub,struct.unpack
local r,version,writers=call('GET',KEYS[1]),0,''
if r then
  local count
  version,count=up('<dB',r)
  writers=sub(r,10,9+16*math.min(count,15))
end
if version~=up('<d',ARGV[1]) then return r end
writers=ARGV[2]..writers
call('SET',KEYS[1],struct.pack('<dB',version+1,#writers/16)..writers..ARGV[3])
return 1
