clear()
local was=0
if n==1 and id==head then
  put(id,false)
  n,S,head,dirty,was=0,0,NONE,true,1
else
  local v=get(id)
  if v then
    if up('<d',v,9)>now then was=1 end
    if not keep(id,v) then take(id,v) end
  end
end
settle()
if ARGV[2]~='0' then add_tombstone(ARGV[2]) end
finish()
return was
