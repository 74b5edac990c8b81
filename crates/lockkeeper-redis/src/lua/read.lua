-- LINE. ARGV: how many bytes of claims are wanted at most, or 0 for all. Answers the state of the
-- line, and the claims with their ids; or how many bytes there are, if that is more.
grant_waiters(true)
-- Before anything is written, since the server may refuse to read all.
local claims=all_claims()
write_changes()
local list,max_bytes,bytes={},tonumber(argument),0
for claim_id,claim in pairs(claims) do
  list[#list+1],list[#list+2]=claim_id,claim
  bytes=bytes+#claim
end
if max_bytes>0 and bytes>max_bytes then return bytes end
return {encode('<dddd',now,last_token,2*waiters+holders,touched),list}
