-- ID: the id of the store, on one node. KEYS: lk:r:id. ARGV: a ballot, an id or ''.
-- A ballot is the token of a lock, so two clients never have one ballot. A node that was asked with
-- a ballot takes no id with a lower one: then the id that a majority has taken is the id for ever.
local fields=redis.pcall('HMGET',KEYS[1],'asked','ballot','id')
if fields.err then
  if string.find(fields.err,'WRONGTYPE',1,true) then
    return foreign(KEYS[1],call('TYPE',KEYS[1]).ok)
  end
  return fields
end
local ballot,asked=tonumber(ARGV[1]),tonumber(fields[1] or '0')
if ballot>asked then call('HSET',KEYS[1],'asked',ARGV[1]) end
if ballot>=asked and ARGV[2]~='' then
  call('HSET',KEYS[1],'ballot',ARGV[1],'id',ARGV[2])
  return {'id',ARGV[1],ARGV[2]}
end
return {'id',fields[2] or '0',fields[3] or ''}
