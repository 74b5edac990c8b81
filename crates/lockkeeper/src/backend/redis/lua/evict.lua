-- EVICT. KEYS: the four of the name. ARGV: t + token, or i + id | m to mark, n for now | who and why
-- Answers 1, or 0: no such claim.
settle()
local kind,victim,claim=sub(own,1,1),sub(own,2),nil
if kind=='i' then claim=get(victim) end
if not claim then
  for h,v in pairs(all()) do
    -- A claim that was found by its id may have been released since then: what is kept of it still has its id.
    local is_meant=kind=='i' and sub(h,9)==KEPT and sub(v,-16)==victim
      or kind=='t' and byte(v,25)==1 and sub(v,1,8)==victim
    if is_meant then own,claim=h,v end
  end
else own=victim end
if not claim or up('<d',claim,9)<=now then
  finish()
  return 0
end
-- What is only kept is nobody's: it goes at once, and nobody is left to be told. A mark ends a minimum hold.
local is_kept=sub(own,9)==KEPT
if ARGV[2]=='m' and not is_kept then
  local len=up('<I4',claim,46)
  local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',claim,58)
  local m=sub(claim,50,60)..string.char(flags%8+8)
    ..sub(claim,62,69+name+owner+reason+value+(flags%8>=4 and 16 or 0))..ARGV[3]
  put(own,sub(claim,1,45)..pk('<I4',#m)..m..sub(claim,50+len))
else take(own,claim) end
-- The holder hears of it before anybody is told to be granted what it holds.
if not is_kept then
  local client=string.gsub(sub(claim,50,57),'.',function(c) return string.format('%02x',byte(c)) end)
  push('plk:w:'..client,'l'..own..ARGV[3])
end
touch,dirty=touch+1,true
settle()
finish()
return 1
