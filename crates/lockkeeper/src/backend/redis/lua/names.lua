  settle()
  -- Before anything is written: to read all may be refused.
  local claims=n>0 and sub(K,5,6)=='h.' and all()
  finish()
  if n==0 then return 0 end
  if not claims then return 1 end
  for _,v in pairs(claims) do return sub(v,70,69+byte(v,58)) end
end
local function one(i)
  local r=fetch(KEYS[i])
  return r and #r~=8 and name(KEYS[i],KEYS[i+1],KEYS[i+2],KEYS[i+3],nil,r) or 0
end
for i=1,#KEYS,4 do out[#out+1]=apart(one,i) end
return out
