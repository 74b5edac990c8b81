-- LOOK, at a claim that waits. Answers the owner, and then 'h' and the token for a holder, 'q' for
-- a waiter, and 'a' for a claim that is not there, or has to be sent again.
local record=record_of(owner)
if record and record[BREAKER] then return {owner,'a'} end
if record and stands(owner) then return {owner,'h',record[TOKEN]} end
if not waits(record) then return {owner,'a'} end
local first_of=call('LINDEX',more,0)
local is_next=first_of==owner and call('EXISTS',main)==0
-- A client of Redisson has removed a waiter without a place.
if is_next or not call('LPOS',more,owner) then return {owner,'a'} end
return {owner,'q'}
