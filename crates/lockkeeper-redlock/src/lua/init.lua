-- INIT: the claims of this run of the server count from the beginning. KEYS: lk:born. ARGV: run.
local born=redis.pcall('GET',KEYS[1])
if type(born)=='table' and born.err then return foreign(KEYS[1],call('TYPE',KEYS[1]).ok) end
if born and not string.match(born,'^(%S+) (%d+)$') then return foreign(KEYS[1],'string') end
call('SET',KEYS[1],ARGV[1]..' 0')
return {'counts'}
