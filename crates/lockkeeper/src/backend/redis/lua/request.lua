-- REQUEST. KEYS: the four of the name. ARGV: who and why. Asks all who hold to let go, in the place of an older request, and
-- tells their clients; who was broken is to end anyway. Answers 1, or 0: nobody holds it.
spares=false
settle()
local asked=0
for h,v in pairs(all()) do
  if byte(v,25)==1 and sub(h,9)~=KEPT and up('<d',v,9)>now and byte(v,61)%16<8 then
    local len=up('<I4',v,46)
    local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',v,58)
    local m=sub(v,50,60)..string.char(flags%8+16+(flags>=32 and 32 or 0))
      ..sub(v,62,69+name+owner+reason+value+(flags%8>=4 and 16 or 0))..own
    put(h,sub(v,1,45)..pk('<I4',#m)..m..sub(v,50+len))
    local client=string.gsub(sub(v,50,57),'.',function(c) return string.format('%02x',byte(c)) end)
    push('plk:w:'..client,'r'..h..own)
    asked=1
  end
end
if n>0 then touch,dirty=touch+1,true end
finish()
return asked
