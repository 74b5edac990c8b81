-- WITHDRAW, the rest: removes exactly the claim `id`, holder or waiter, and grants and notifies the
-- waiters that then fit. A second copy of the request finds no such id, and removes nothing.
recount_if_due()
local removed=0
if holders==1 and id==first_holder then
  -- The only holder, and live, since the recount would have removed it. Nothing of its record
  -- matters: it has no minimum hold, or it would not be `first_holder`.
  set_claim(id,false)
  holders,weight_held,first_holder,header_changed,removed=0,0,NO_ID,true,1
else
  local claim=claim_of(id)
  if claim then
    -- A dead waiter inside the queue leaves as well, but the caller learns that it had lost its
    -- place.
    if decode('<d',claim,EXPIRES)>now then removed=1 end
    if not keep_for_min_hold(id,claim) then remove_claim(id,claim) end
  end
end
grant_waiters()
if ARGV[2]~='0' then add_tombstone(ARGV[2]) end
write_changes()
return removed
