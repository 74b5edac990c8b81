-- OBSERVE. ARGV: p, or s for the channel of a shard | for how many ms. Answers the state of the
-- line. From that state on, write_changes() publishes each change to lk:w:{n}. The header only says
-- until when, so one observer costs as much as many.
needs_no_memory=false
grant_waiters()
if observed_until<=now then observer_kinds=0 end
local kind=ARGV[1]=='s' and OBSERVED_SHARDED or OBSERVED_PLAIN
-- Both kinds, if an observer of the other kind is there.
if observer_kinds~=kind then observer_kinds=observer_kinds==0 and kind or OBSERVED_PLAIN+OBSERVED_SHARDED end
observed_until,header_changed=math.max(observed_until,now+ARGV[2]*1000),true
write_changes()
return encode('<dddd',now,last_token,2*waiters+holders,touched)
