clear()
local was=0
if n==1 and id==head then
  put(id,false)
  n,S,head,dirty,was=0,0,NONE,true,1
else
  local v=get(id)
  if v then
    if up('<d',v,9)>now then was=1 end
    if keep(id,v) then
      -- Who is first looks at the end of what holds next, and that may be sooner now.
      local h=nq>0 and first()
      local claim=h and get(h)
      if claim then push(sub(claim,50+up('<I4',claim,46)),'a'..h) end
    else take(id,v) end
  end
end
settle()
if ARGV[2]~='0' then bury(ARGV[2]) end
finish()
return was
