-- NAMES. KEYS: the four of each name. Answers for each 0: nobody lives there, 1, the name where its key does not say it, or an error.
local t=call('TIME')
local now=t[1]*1000000+t[2]
local out={}
local function name(K,Q,W,G,id,r)
