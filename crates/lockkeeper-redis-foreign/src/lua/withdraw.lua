-- WITHDRAW. ARGV: 4 the life of a tombstone in ms, 0 for none. Answers the owner, 0 or one
-- more than the clients that a message goes to if the claim was there, and the holders that are
-- left, whose lives the client may look at.
local broken=record_of(owner)
local removed=drop(owner)
if not broken or not broken[REMOVED] or removed then call('HDEL',side,owner) end
local keep=tonumber(ARGV[4])
if keep>0 and call('PTTL',gone)<keep then call('SET',gone,'1','PX',keep) end
if not removed then
  -- A dead waiter may have left the head of a free lock.
  advance()
  return {owner,0}
end
local receivers=wake()
local left={owner,1+(type(receivers)=='number' and receivers or 0)}
if SHARED then
  for _,holder in ipairs(owners() or {}) do left[#left+1]=holder[1] end
end
return left
