clear()
local was=0
if n==1 and id==head then
  put(id,false)
  n,S,head,dirty,was=0,0,NONE,true,1
else
  local v=get(id)
  if v then
    if up('<d',v,9)>now then was=1 end
    take(id,v)
  end
end
settle()
if ARGV[2]~='0' then bury(ARGV[2]) end
finish()
return was
