  settle()
  if dirty then save() end
  if n==0 then return 0 end
  if sub(K,5,6)~='h.' then return 1 end
  local claims=all()
  for i=1,#claims,2 do
    if #claims[i]==16 then return sub(claims[i+1],66,65+byte(claims[i+1],54)) end
  end
end
for i=1,#KEYS,4 do
  local r=call('GET',KEYS[i])
  out[#out+1]=r and #r>8 and name(KEYS[i],KEYS[i+1],KEYS[i+2],KEYS[i+3],nil,r) or 0
end
return out
