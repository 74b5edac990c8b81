-- NOTE: keeps a break (b), or a request to release (a), with a holder on one node.
-- KEYS: line. ARGV: id, kind, text.
local id=ARGV[1]
local line,wrong=read_line(KEYS[1])
if wrong then return wrong end
if not line.holders[id] then return {sub(id,1,8),'absent'} end
call('HSET',line.key,ARGV[2]..id,ARGV[3])
return {sub(id,1,8),'noted'}
