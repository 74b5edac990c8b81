-- What LOOK, LINE, OBSERVE, AMEND, EVICT and REQUEST begin with. KEYS: the four of the name.
local line_key,queue_key,claims_key,tombstones_key,time=KEYS[1],KEYS[2],KEYS[3],KEYS[4],call('TIME')
local now=time[1]*1000000+time[2]
-- `argument` is what the script is about, mostly the id of a claim. There is no `id`: a claim that
-- the script grants gets a notification, even if it is the caller's, since the answer says nothing
-- about a grant.
local stored,argument,id=read_line(line_key),ARGV[1],nil

