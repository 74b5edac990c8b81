-- SESSION, of a detached session, which has nothing to do with lines. KEYS: its key. ARGV: for how
-- many ms the server is to remember that the session is closed; 0 only asks. Answers the part of
-- the key that stands for the session, and a letter for the value that was there: 'o' nothing, so
-- the session is open; 'c' it was closed; 'f' a value that lockkeeper has not written, which stays
-- as it is.
--
-- Each copy of a request does the same. A late copy of a close lets the server remember for longer.
local call,key=redis.call,KEYS[1]
local stored=redis.pcall('GET',key)
if type(stored)=='table' and not string.find(stored.err,'wrong kind of value',1,true) then call('GET',key) end
local found=not stored and 'o' or stored=='closed' and 'c' or 'f'
if found~='f' and ARGV[1]~='0' then call('SET',key,'closed','PX',ARGV[1]) end
-- Behind `lk:s:{`.
return string.sub(key,7,38)..found
