  -- The rest of list_line(). A line with live waiters has a holder, since grant_waiters() has
  -- granted the first one.
  grant_waiters(true)
  -- Before anything is written, since the server may refuse to read all.
  local claims=holders>0 and all_claims()
  write_changes()
  if holders==0 then return 0 end
  local list,name,bytes={},'',0
  for claim_id,claim in pairs(claims) do
    list[#list+1],list[#list+2]=claim_id,claim
    -- `lk:{h.…}`: a hash.
    if sub(line_key,5,6)=='h.' then name=sub(claim,TEXTS,TEXTS-1+byte(claim,NAME_LEN)) end
    bytes=bytes+#claim
  end
  if bytes>bytes_left then
    bytes_left=-1
    return name=='' and 1 or name
  end
  bytes_left=bytes_left-bytes
  return {name,encode('<dddd',now,last_token,2*waiters+holders,touched),list}
end

-- Lists the line whose first key is KEYS[i]. Behind a line that was too long, it reads no claims:
-- the client asks for the other lines in its next request.
local function list_nth(i)
  local stored=read_line(KEYS[i])
  if not stored or #stored==FREE_LENGTH then return 0 end
  return bytes_left<0 and 2 or list_line(KEYS[i],KEYS[i+1],KEYS[i+2],KEYS[i+3],nil,stored)
end

for i=1,#KEYS,4 do answers[#answers+1]=isolated(list_nth,i) end
return answers
