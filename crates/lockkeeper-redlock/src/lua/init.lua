-- INIT: the servers of all clients, and since when the claims of this node count. KEYS: lk:born.
-- ARGV: run, the servers, and 'all' claims, those from 'now' on, or 'as' before.
local run,members,counts=ARGV[1],ARGV[2],ARGV[3]
local born,wrong=read_born(KEYS[1])
if wrong then return wrong end
local since=0
if counts=='as' and born and born.run==run then since=born.since
elseif counts~='all' then since=now end
write_born(KEYS[1],run,string.format('%.0f',since),members)
return {'counts'}
