-- EVICT. KEYS: the four of the name. ARGV: t + token, or i + id | m to mark, n for now | who and why
-- Answers 1, or 0: no such claim.
settle()
local v
if sub(own,1,1)=='t' then
  local claims,tok=all(),sub(own,2)
  for i=1,#claims,2 do
    if #claims[i]==16 and sub(claims[i+1],1,8)==tok and byte(claims[i+1],25)==1 then own,v=claims[i],claims[i+1] end
  end
else
  own=sub(own,2)
  v=get(own)
end
if not v or up('<d',v,9)<=now then
  if dirty then save() end
  return 0
end
if ARGV[2]=='m' then
  local len=up('<I4',v,42)
  local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',v,54)
  local m=sub(v,46,56)..string.char(flags%8+8)
    ..sub(v,58,65+name+owner+reason+value+(flags%8>=4 and 16 or 0))..ARGV[3]
  put(own,sub(v,1,41)..pk('<I4',#m)..m..sub(v,46+len))
else take(own,v) end
-- After what may be refused, and before anybody is told to be granted what it holds.
local client=string.gsub(sub(v,46,53),'.',function(c) return string.format('%02x',byte(c)) end)
call('PUBLISH','lk:w:'..client,'l'..own..ARGV[3])
touch,dirty=touch+1,true
settle()
save()
return 1
