for i=1,#ARGV do
  local k,id=4*i,ARGV[i]
  local K,res=KEYS[k-3],-1
  local r=call('GET',K)
  if r and #r>8 then
    local last,exp=up('<dd',r)
    if exp>now and sub(r,17,33)==id then
      local life=up('<d',r,42)
      spare(KEYS[k-2] or K,'SETRANGE',K,'8',pk('<d',now+life))
      if exp-life<now-now%3600000000 then
        call('PEXPIRE',K,string.format('%.0f',math.max(172800000,life/1000+86400000,(last-now)/1000+172800000)))
      end
      res=last
    else res=renew(K,KEYS[k-2],KEYS[k-1],KEYS[k],sub(id,2),r) end
  end
  out[i]=res
end
if elsewhere then return false end
out[#ARGV+1]=now
return out
