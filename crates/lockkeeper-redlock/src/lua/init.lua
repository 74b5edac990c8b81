-- INIT: the servers of all clients, and since when the claims of this node count. KEYS: lk:born.
-- ARGV: run, the servers, those that the client has read, max-keep, and 'all' claims, those from
-- 'now' on, or 'as' before. Answers for how long no claim counts.
local run,members,known,max_keep,counts=ARGV[1],ARGV[2],ARGV[3],tonumber(ARGV[4]),ARGV[5]
local born,wrong=read_born(KEYS[1])
if wrong then return wrong end
local has=born and born.members or ''
if has~=known and has~=members then return {'changed'} end
local since,joined=now,born and born.joined
if joined and (joined>now or joined+max_keep<=now) then joined=nil end
if counts=='now' then joined=now
elseif counts=='as' then since=born and born.run==run and born.since or now
-- A server that has joined others may lack locks that they hold.
else since=joined or 0 end
write_born(KEYS[1],run,since,members,joined)
return {'counts',since>0 and math.max(since+max_keep-now,0) or 0}
