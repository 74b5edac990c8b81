-- LINES. KEYS: the four of each name. ARGV: the most bytes of claims that are wanted. Answers for each 0: nobody lives there,
-- the name where its key does not say it, the header and the claims as LINE does, 1 or the name where that is too much, or an
-- error.
local t=call('TIME')
local now,left=t[1]*1000000+t[2],tonumber(ARGV[1])
local out={}
local function describe(K,Q,W,G,id,r)
