-- LINE. KEYS: the four of the name. ARGV: the most bytes that are wanted, or 0 for all. Answers the header, and the claims
-- with their ids; or how many bytes there are, if that is more.
settle(true)
-- Before anything is written: to read all may be refused.
local claims=all()
finish()
local list,most,bytes={},tonumber(own),0
for h,v in pairs(claims) do
  list[#list+1],list[#list+2]=h,v
  bytes=bytes+#v
end
if most>0 and bytes>most then return bytes end
return {pk('<dddd',now,last,2*nq+n,touch),list}
