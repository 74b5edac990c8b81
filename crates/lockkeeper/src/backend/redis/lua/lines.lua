  settle(true)
  -- Before anything is written: to read all may be refused.
  local claims=n>0 and all()
  finish()
  if n==0 then return 0 end
  local list,name,bytes={},'',0
  for h,v in pairs(claims) do
    list[#list+1],list[#list+2]=h,v
    if sub(K,5,6)=='h.' then name=sub(v,70,69+byte(v,58)) end
    bytes=bytes+#v
  end
  if bytes>left then return name=='' and 1 or name end
  left=left-bytes
  return {name,pk('<dddd',now,last,2*nq+n,touch),list}
end
local function one(i)
  local r=fetch(KEYS[i])
  return r and #r~=8 and describe(KEYS[i],KEYS[i+1],KEYS[i+2],KEYS[i+3],nil,r) or 0
end
for i=1,#KEYS,4 do out[#out+1]=apart(one,i) end
return out
