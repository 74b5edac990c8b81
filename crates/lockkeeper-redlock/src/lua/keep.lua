-- KEEP: the max-keep and the servers of the clients, on one node. KEYS: lk:r:id, lk:born. ARGV: the
-- max-keep of this client, and whether the node takes it: 'set', 'new' if the node has none, or ''.
local born=read_born(KEYS[2])
local members=born and born.members or ''
local fields=redis.pcall('HMGET',KEYS[1],'keep')
-- The value of another program keeps no lock away: only the id of the store is missing.
if fields.err then return {'keep','',members} end
local kept=fields[1] or ''
if ARGV[2]=='set' or ARGV[2]=='new' and kept=='' then
  -- A full server refuses HSET, unless the script has written before.
  call('HDEL',KEYS[1],'-')
  call('HSET',KEYS[1],'keep',ARGV[1])
  kept=ARGV[1]
end
return {'keep',kept,members}
