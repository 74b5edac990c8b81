-- CLAIM. KEYS: the four of the name. ARGV: \1 + id + capacity + tail | options + max_waiters + channel | id to replace
-- Answers the token alone where it is the server's time, else a letter and what belongs to it (layout/claim.rs).
local K,A=KEYS[1],ARGV[1]
local r,t=call('GET',K),call('TIME')
local now=t[1]*1000000+t[2]
local last=r and up('<d',r) or 0
if byte(ARGV[2])<50 and (not r or #r==8 and last<now) then
  local v=pk('<ddc0',now,now+up('<d',A,26),A)
  -- Nothing outlives the key: it is given two days in each hour, and a life of more than a day does not come here.
  if last>now-now%3600000000 then call('SET',K,v,'KEEPTTL') else call('SET',K,v,'PX','172800000') end
  return now
end
local id,Q,W,G=sub(A,2,17),KEYS[2],KEYS[3],KEYS[4]
