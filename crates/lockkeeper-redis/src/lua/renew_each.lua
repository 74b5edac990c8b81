-- RENEW. KEYS: the four of each name. ARGV: \33, id for each. Answers for each claim: its token and
-- its ttl in µs if it holds; these and the words if it was asked to release; 0 if it waits; -1 if
-- it is not there; the words if it was broken; or an error. Last comes the first 8 bytes of the
-- first id | now.
local time=call('TIME')
local now=time[1]*1000000+time[2]
local answers={}

-- Returns the words of a BROKEN or REQUESTED claim: who, and why. They are the end of the shown
-- part.
local function words_of(claim)
  local length=decode('<I4',claim,LENGTH)
  local name_len,_,flags,owner_len,reason_len,value_len=decode('<BI2BI2I2I4',claim,NAME_LEN)
  return sub(claim,TEXTS+name_len+owner_len+reason_len+value_len
    +(flags%(2*AMENDED)>=AMENDED and CHANGE_LENGTH or 0),SHOWN-1+length)
end

-- Returns the answer about a claim that holds the lock.
local function held(claim,token,lease)
  return {token,lease-1000*decode('<I4',claim,DELAY),byte(claim,FLAGS)%(2*REQUESTED)>=REQUESTED and words_of(claim) or nil}
end

-- Renews the claim `id` of one line, and returns the answer about it. The files up to renew.lua are
-- its body.
local function renew(line_key,queue_key,claims_key,tombstones_key,id,stored)
