-- OBSERVE. KEYS: the four of the name. ARGV: p, or s for the channel of a shard | for how many ms. Answers the revision,
-- from which on each change is told by lk:w:{n}. K knows only until when, so any number of observers costs the same.
spares=false
settle()
if obs<=now then kinds=0 end
local kind=ARGV[1]=='s' and 2 or 1
if kinds~=kind then kinds=kinds==0 and kind or 3 end
obs,dirty=math.max(obs,now+ARGV[2]*1000),true
finish()
return pk('<dddd',now,last,2*nq+n,touch)
