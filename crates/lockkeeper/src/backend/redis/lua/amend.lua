-- AMEND. KEYS: the four of the name. ARGV: id | client + number of the change | l + weight, or v + value, or m + all that it shows, or h + minimum hold in microseconds
-- Answers 1, or 0: not live.
settle()
local kind,what,v=sub(ARGV[3],1,1),sub(ARGV[3],2),get(own)
local granted=v and byte(v,25)==1
spares=false
if not v or up('<d',v,9)<=now or ((kind=='l' or kind=='h') and not granted)
  or kind=='h' and byte(v,61)%16>=8 then
  finish()
  return 0
end
-- What it shows from now on; the same when a later change of the same client was here before this one.
local function changed(m)
  local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',m,9)
  local from,last=21+name,flags-flags%8
  local rest=sub(m,from+owner+reason+value)
  if flags%8>=4 then
    if sub(rest,1,8)==sub(ARGV[2],1,8) and up('<d',rest,9)>=up('<d',ARGV[2],9) then return m end
    rest=sub(rest,17)
  end
  if kind=='v' then
    return sub(m,1,11)..string.char(flags%2+6+last)..sub(m,13,16)..pk('<I4',#what)
      ..sub(m,21,from+owner+reason-1)..what..ARGV[2]..rest
  end
  emax=math.max(emax,(up('<I2',what)))
  return sub(m,1,9)..sub(what,1,2)..string.char(byte(what,3)+4+last)..sub(what,4,11)
    ..sub(m,21,from-1)..sub(what,12)..ARGV[2]..rest
end
if kind=='l' then
  local weight=up('<I4',v,30)
  local less=math.min(weight,(up('<I4',what)))
  S=S-weight+less
  put(own,sub(v,1,29)..pk('<I4',less)..sub(v,34))
elseif kind=='h' then
  local till,span=minimum(v),up('<d',what)
  if now+span>till then hold(own,v,now+span,span) end
else
  local len=up('<I4',v,46)
  local m=changed(sub(v,50,49+len))
  put(own,sub(v,1,45)..pk('<I4',#m)..m..sub(v,50+len))
end
touch,dirty=touch+1,true
settle()
finish()
return 1
