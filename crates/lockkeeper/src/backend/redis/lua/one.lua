local K,Q,W,G,t=KEYS[1],KEYS[2],KEYS[3],KEYS[4],call('TIME')
local now=t[1]*1000000+t[2]
-- No `id`: whoever is granted here hears of it by a push, the caller too.
local r,own,id=fetch(K),ARGV[1],nil
