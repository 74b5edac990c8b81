-- SWAP, of a register, which has nothing to do with lines. KEYS: its key. ARGV: the expected
-- version d, 0 for none | the writer's id | the value. Answers 1, or what is there instead.
--
-- THE VALUE OF THE KEY:
--    1 version d
--    9 number of writers B
--   10 the ids of the last writers, 16 bytes each, newest first; then the value
--
-- The version rises by one with each write, and nothing is written unless it is the expected one.
-- So of two writers that have read the same version one wins. Replay: the second copy of a request
-- finds another version, and the client finds its own id among the last 16 writers.
local call,sub,decode=redis.call,string.sub,struct.unpack
local stored,version,writers=call('GET',KEYS[1]),0,''
if stored then
  local count
  version,count=decode('<dB',stored)
  -- One less than 16, since the new writer comes before them.
  writers=sub(stored,10,9+16*math.min(count,15))
end
if version~=decode('<d',ARGV[1]) then return stored end
writers=ARGV[2]..writers
call('SET',KEYS[1],struct.pack('<dB',version+1,#writers/16)..writers..ARGV[3])
return 1
