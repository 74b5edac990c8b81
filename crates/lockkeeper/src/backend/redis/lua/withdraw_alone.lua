-- WITHDRAW. KEYS: the four of the name. ARGV: \17 + id | life of the tombstone in ms, or 0. Answers 1, or 0: not there.
local K=KEYS[1]
local r,t=fetch(K),call('TIME')
local now=t[1]*1000000+t[2]
if r and ARGV[2]=='0' and sub(r,17,33)==ARGV[1] then
  local last,expires=up('<dd',r)
  -- A lease of more than a day has made K stay for longer than the last token needs.
  if expires-now>86400000000 then
    local stay=string.format('%.0f',math.max(172800000,(last-now)/1000+172800000))
    spare(KEYS[2] or K,'SET',K,sub(r,1,8),'PX',stay)
  else spare(KEYS[2] or K,'SET',K,sub(r,1,8),'KEEPTTL') end
  return expires>now and 1 or 0
end
local id,Q,W,G=sub(ARGV[1],2),KEYS[2],KEYS[3],KEYS[4]
