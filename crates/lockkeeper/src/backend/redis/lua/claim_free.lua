-- CLAIM. KEYS: the four of the name. ARGV: \17 + id + capacity + tail | options + max_waiters + channel | id to replace
-- Answers 8 bytes of the id | a letter | the time and what belongs to the letter (layout/claim.rs).
local K,A,mark=KEYS[1],ARGV[1],sub(ARGV[1],2,9)
local r,t=fetch(K),call('TIME')
local now=t[1]*1000000+t[2]
local last=r and up('<d',r) or 0
if byte(ARGV[2])<50 and (not r or #r==8 and last<now) then
  local v=pk('<ddc0',now,now+up('<d',A,26),A)
  -- Nothing outlives the key: it is given two days in each hour, and a life of more than a day does not come here.
  if last>now-now%3600000000 then call('SET',K,v,'KEEPTTL') else call('SET',K,v,'PX','172800000') end
  return mark..pk('<c1dd','g',now,now)
end
local id,Q,W,G=sub(A,2,17),KEYS[2],KEYS[3],KEYS[4]
