-- ID, of the store, which has nothing to do with lines. KEYS: its key. ARGV: 16 random bytes.
-- Answers what the key holds: the id, behind a word that no other program writes there.
--
-- The first client that asks makes the id. The time makes another id of a late copy of its request,
-- when somebody has wiped the database meanwhile.
local call=redis.call
local stored=call('GET',KEYS[1])
if stored then return stored end
local time=call('TIME')
stored='lockkeeper-store:'..string.sub(redis.sha1hex(ARGV[1]..time[1]..'.'..time[2]),1,32)
call('SET',KEYS[1],stored)
return stored
