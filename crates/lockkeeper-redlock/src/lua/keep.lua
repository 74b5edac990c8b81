-- KEEP: the max-keep and the servers of the clients, on one node. KEYS: lk:r:id, lk:born. ARGV: the
-- max-keep of this client, whether the node takes it: 'set', 'new' if the node has none, or '', and
-- the run of the server.
local born,wrong=read_born(KEYS[2])
-- The first contact of any client begins the time in which the claims do not count. A full server
-- refuses SET, and answers all the same.
if not wrong and not (born and born.run==ARGV[3] and born.since<=now) then
  pcall(write_born,KEYS[2],ARGV[3],now,born and born.members or '',born and born.joined)
end
local members=born and born.members or ''
local known=counts(born,ARGV[3],tonumber(ARGV[1])) and '1' or ''
local fields=redis.pcall('HMGET',KEYS[1],'keep')
-- The value of another program keeps no lock away: only the id of the store is missing.
if fields.err then return {'keep','',members,known} end
local kept=fields[1] or ''
if ARGV[2]=='set' or ARGV[2]=='new' and kept=='' then
  -- A full server refuses HSET, unless the script has written before.
  call('HDEL',KEYS[1],'-')
  call('HSET',KEYS[1],'keep',ARGV[1])
  kept=ARGV[1]
end
return {'keep',kept,members,known}
