-- CLAIM. KEYS: the four of the name. ARGV: \33, id, and the record from `capacity` on | options,
-- max_waiters, channel | the id to replace. Answers the first 8 bytes of the id | a letter | now |
-- what belongs to the letter (layout/claim.rs).
--
-- Here is the short way: GRANTS a claim whose lock is free, with one GET and one SET. Any other
-- claim goes on in claim.lua.
local line_key,sent,id_prefix=KEYS[1],ARGV[1],sub(ARGV[1],2,9)
local stored,time=read_line(line_key),call('TIME')
local now=time[1]*1000000+time[2]
local last_token=stored and decode('<d',stored) or 0
-- Exclusion: FREE means that nobody holds or waits. Tombstones: FREE means that none stands, so a
-- withdrawn id cannot be granted here. Order of tokens: the token is the time, and only where that
-- is above the last token. Replay: a claim that may have arrived before has RESEND, and does not
-- come here. Neither does one with LONG or REPLACES.
if byte(ARGV[2])<DIGIT_0+RESEND and (not stored or #stored==FREE_LENGTH and last_token<now) then
  local alone=encode('<ddc0',now,now+decode('<d',sent,LIFE-SENT_SHIFT),sent)
  -- The key must outlive the claim. A last token of this hour shows that the key got two days
  -- within this hour, and the claim lives for a day at most.
  if last_token>now-now%HOUR then call('SET',line_key,alone,'KEEPTTL') else call('SET',line_key,alone,'PX','172800000') end
  return id_prefix..encode('<c1dd','g',now,now)
end
local id,queue_key,claims_key,tombstones_key=sub(sent,2,17),KEYS[2],KEYS[3],KEYS[4]

