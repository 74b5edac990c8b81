-- lockkeeper: the check of a fencing token beside the data, and a command on the data if the check
-- passes. KEYS: the marks | the data. ARGV: x or s (exclusive, shared) | token | a command and its
-- arguments after the key, or nothing. Answers {1, the command's answer}, or {0, the newer token
-- that the marks have}.
local mode,token=ARGV[1],ARGV[2]
-- As texts: a token of a high epoch is more than a number can hold here.
local function newer(a,b) return #a>#b or #a==#b and a>b end
local marks=redis.call('HMGET',KEYS[1],'any','exclusive')
local any,exclusive=marks[1] or '0',marks[2] or '0'
if newer(exclusive,any) then any=exclusive end
local seen=mode=='x' and any or exclusive
if newer(seen,token) then return {0,seen} end
if newer(token,any) then redis.call('HSET',KEYS[1],'any',token) end
if mode=='x' and newer(token,exclusive) then redis.call('HSET',KEYS[1],'exclusive',token) end
if not ARGV[3] then return {1} end
return {1,redis.call(ARGV[3],KEYS[2],unpack(ARGV,4))}
