-- RENEW. KEYS: the four of each name. ARGV: \17 + id for each.
-- Answers for each the token, or that and who asks for it, 0 for one that waits, -1 for one that is not there, who broke it, or an error; then
-- 8 bytes of the first id | the time.
local t=call('TIME')
local now=t[1]*1000000+t[2]
local out,elsewhere={},false
-- Who broke a claim, or asks for it, and why: behind the other texts of its record.
local function words(v)
  local ml=up('<I4',v,46)
  local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',v,58)
  return sub(v,70+name+owner+reason+value+(flags%8>=4 and 16 or 0),49+ml)
end
local function renew(K,Q,W,G,id,r)
