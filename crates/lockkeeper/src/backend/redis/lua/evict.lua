-- EVICT. KEYS: the four of the name. ARGV: t + token, or i + id | m to mark, n for now | who and why
-- Answers 1, or 0: no such claim.
settle()
local v
if sub(own,1,1)=='t' then
  local tok=sub(own,2)
  for h,claim in pairs(all()) do
    if sub(claim,1,8)==tok and byte(claim,25)==1 then own,v=h,claim end
  end
else
  own=sub(own,2)
  v=get(own)
end
if not v or up('<d',v,9)<=now then
  finish()
  return 0
end
-- What is only kept is nobody's, and goes at once. A mark ends a minimum hold.
if ARGV[2]=='m' and sub(own,9)~=KEPT then
  local len=up('<I4',v,46)
  local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',v,58)
  local m=sub(v,50,60)..string.char(flags%8+8)
    ..sub(v,62,69+name+owner+reason+value+(flags%8>=4 and 16 or 0))..ARGV[3]
  put(own,sub(v,1,45)..pk('<I4',#m)..m..sub(v,50+len))
else take(own,v) end
-- Before anybody is told to be granted what it holds.
local client=string.gsub(sub(v,50,57),'.',function(c) return string.format('%02x',byte(c)) end)
push('plk:w:'..client,'l'..own..ARGV[3])
touch,dirty=touch+1,true
settle()
finish()
return 1
