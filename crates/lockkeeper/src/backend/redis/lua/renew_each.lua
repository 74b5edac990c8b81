-- RENEW. KEYS: the four of each name. ARGV: \17 + id for each.
-- Answers for each the token, 0 for one that waits, -1 for one that is not there, who broke it, or an error; then
-- 8 bytes of the first id | the time.
local t=call('TIME')
local now=t[1]*1000000+t[2]
local out,elsewhere={},false
local function renew(K,Q,W,G,id,r)
