local function one(i)
  local k,id=4*i,ARGV[i]
  local K=KEYS[k-3]
  local r=fetch(K)
  if not r or #r==8 then return -1 end
  local last,exp=up('<d',r),form(r)==17 and up('<d',r,9)
  if not exp or exp<=now or sub(r,17,33)~=id then return renew(K,KEYS[k-2],KEYS[k-1],KEYS[k],sub(id,2),r) end
  local lease=up('<d',r,42)
  -- First, since it changes nothing that anybody could see.
  if exp-lease<now-now%3600000000 then
    call('PEXPIRE',K,string.format('%.0f',math.max(172800000,lease/1000+86400000,(last-now)/1000+172800000)))
  end
  spare(KEYS[k-2] or K,'SETRANGE',K,'8',pk('<d',now+lease))
  return last
end
for i=1,#ARGV do out[i]=apart(one,i) end
if elsewhere then return false end
out[#ARGV+1]=sub(ARGV[1],2,9)..pk('<d',now)
return out
