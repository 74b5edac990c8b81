-- RENEW. Answers the owner, and then 'h', token, ttl, asker and reason for a holder; 'l' for a
-- claim that is not there; 'q' for a waiter; 'l', breaker, reason and whether it was removed for
-- one that was broken; 'l' and the other owner if a program without lockkeeper holds the lock.
local record=record_of(owner)
if waits(record) then
  advance()
  record=record_of(owner)
end
local is_there=stands(owner)
if record and record[BREAKER] then return {owner,'l',record[BREAKER],record[WHY],record[REMOVED] and 1 or 0} end
if is_there and record then
  remember(life(record))
  prolong(owner,life(record),record)
  return {owner,'h',record[TOKEN],record[TTL],record[ASKER],record[ASKED]}
end
if waits(record) then
  queued(owner,record)
  -- It may be back at the head of a free lock.
  advance()
  return {owner,'q'}
end
if not SHARED then
  local found=owners()
  local other=found and found[1]
  local is_holder=other and other[3]~=WAITER and other[1]~=owner
  if is_holder and not record_of(other[1]) then return {owner,'l',other[1]} end
end
return {owner,'l'}
