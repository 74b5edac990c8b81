-- EVICT, by an administrator. ARGV: t and a token, or i and an id | m to mark, n to remove now |
-- who and why, as the words of a claim. Answers 1, or 0: no such claim.
--
-- A marked claim is not extended any more, so it ends with its life, and exclusion holds all the
-- time. A claim that is removed now gives its weight to the next waiter, while its client may still
-- use the resource: the administrator vouches for that client. Fencing tokens protect resources
-- that check them.
grant_waiters()
local kind,victim,claim=sub(argument,1,1),sub(argument,2),nil
if kind=='i' then claim=claim_of(victim) end
if not claim then
  for claim_id,candidate in pairs(all_claims()) do
    -- A kept claim: its record ends with the id that it had when the administrator listed it. Or
    -- the holder with the token.
    local is_meant=kind=='i' and sub(claim_id,9)==KEPT and sub(candidate,-16)==victim
      or kind=='t' and byte(candidate,GRANTED)==1 and sub(candidate,1,8)==victim
    if is_meant then argument,claim=claim_id,candidate end
  end
else argument=victim end
-- From here on `argument` is the id of the claim, or the field of a kept one.
if not claim or decode('<d',claim,EXPIRES)<=now then
  write_changes()
  return 0
end
-- A kept claim has no owner to wait for or to notify: it goes at once.
local is_kept=sub(argument,9)==KEPT
if ARGV[2]=='m' and not is_kept then
  -- BROKEN takes the place of the flags above it: a mark ends a request and a minimum hold. The
  -- words take their old place.
  local length=decode('<I4',claim,LENGTH)
  local name_len,_,flags,owner_len,reason_len,value_len=decode('<BI2BI2I2I4',claim,NAME_LEN)
  local shown=sub(claim,SHOWN,FLAGS-1)..string.char(flags%BROKEN+BROKEN)
    ..sub(claim,FLAGS+1,TEXTS-1+name_len+owner_len+reason_len+value_len
    +(flags%(2*AMENDED)>=AMENDED and CHANGE_LENGTH or 0))..ARGV[3]
  set_claim(argument,sub(claim,1,LENGTH-1)..encode('<I4',#shown)..shown..sub(claim,SHOWN+length))
else remove_claim(argument,claim) end
-- NOTIFIES the holder ('l') before grant_waiters() notifies the waiters that get its weight.
if not is_kept then
  local client=string.gsub(sub(claim,CLIENT,DELAY-1),'.',function(c) return string.format('%02x',byte(c)) end)
  notify('plk:w:'..client,'l'..argument..ARGV[3])
end
touched,header_changed=touched+1,true
grant_waiters()
write_changes()
return 1
