-- WITHDRAW_OPEN, the rest of it: WITHDRAW without a tombstone while the slot moves, and the side keys may be at another
-- node. KEYS: that of the line. Answers as WITHDRAW does, or nothing where the side keys would have to decide.
--
-- Of SHARED it removes only a live holder that is alone there: nobody waits, no tombstone stands, nobody observes. Then the
-- line is FREE, and the side keys mean nothing.
if not stored or #stored==FREE_LENGTH or form_of(stored)==ALONE then return 0 end
local _,next_expiry,_,_,waiters,holders,_,_,first_holder,tombstones_until,observed_until=
  decode('<ddc1dI4I4dc4c16ddd',stored)
-- After `next_expiry` the holder may be dead or not, which only its record tells.
if holders~=1 or waiters~=0 or first_holder~=id or tombstones_until>now or observed_until>now or next_expiry<=now then
  return false
end
even_if_full(line_key,'SET',line_key,sub(stored,1,8),'KEEPTTL')
return 1
