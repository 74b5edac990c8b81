-- OBSERVE. KEYS: the four of the name. ARGV: channel | for how many ms. Answers the revision.
settle()
if dirty then save() end
share()
local list,till,keep,p=call('HGET',W,'*') or '',now+ARGV[2]*1000,{},1
while p<=#list do
  local exp,len=up('<dI2',list,p)
  local e=p+10+len
  if exp>now then
    if sub(list,p+10,e-1)~=ARGV[1] then keep[#keep+1]=sub(list,p,e-1)
    -- Another of the same client watches for longer.
    elseif exp>till and exp<=now+60000000 then till=exp end
  end
  p=e
end
call('HSET',W,'*',table.concat(keep)..pk('<dI2',till,#ARGV[1])..ARGV[1])
if n==0 and nq==0 then fresh=true end
if till>obs then obs=till end
-- Nobody is told: nothing has changed but this.
last0,left0,touch0=last,2*nq+n,touch
save()
return pk('<dddd',now,last,2*nq+n,touch)
