-- CLAIM_OPEN: CLAIM while the slot moves, and the side keys may be at another node. KEYS: that of the line. ARGV: as for
-- CLAIM. Answers as CLAIM does, or nothing where the side keys would have to decide.
--
-- This file turns a dead holder of the form ALONE into FREE, renews the caller's own claim, and answers a claim that does
-- not wait. A free lock is then granted by claim_free.lua. Redis serves a single key all the time, at one node at a time, so
-- this is as exclusive as CLAIM. FREE and ALONE give the side keys no meaning, and rule out a tombstone.
do
  local line_key,stored,time=KEYS[1],read_line(KEYS[1]),call('TIME')
  local now=time[1]*1000000+time[2]
  if stored and #stored~=FREE_LENGTH and form_of(stored)==ALONE then
    local last_token,expires=decode('<dd',stored)
    if expires<=now then call('SET',line_key,sub(stored,1,8),'KEEPTTL')
    elseif sub(stored,ALONE_ID,33)==sub(ARGV[1],2,17) then
      call('SETRANGE',line_key,'8',encode('<d',now+decode('<d',stored,LIFE+ALONE_SHIFT)))
      return sub(ARGV[1],2,9)..'g'..encode('<ddd',now,last_token,
        decode('<d',stored,LIFE+ALONE_SHIFT)-1000*decode('<I4',stored,DELAY+ALONE_SHIFT))
    -- A try, without any other option, whose epoch is not too low. Only the plain "busy" is answered here.
    elseif byte(ARGV[2])==DIGIT_0 and decode('<I2',stored,EPOCH+ALONE_SHIFT)<=decode('<I2',ARGV[1],EPOCH-SENT_SHIFT) then
      local min_capacity,weight_held=decode('<I4I4',stored,CAPACITY+ALONE_SHIFT)
      local capacity,weight=decode('<I4I4',ARGV[1],CAPACITY-SENT_SHIFT)
      -- Another kind of lock, or a permit that fits: CLAIM decides.
      if (min_capacity==EXCLUSIVE)~=(capacity==EXCLUSIVE) or weight_held+weight<=math.min(min_capacity,capacity) then
        return false
      end
      local owner_at=TEXTS+ALONE_SHIFT+byte(stored,NAME_LEN+ALONE_SHIFT)
      return sub(ARGV[1],2,9)..'b'..encode('<ddddd',now,last_token,1,0,expires-now)
        ..sub(stored,owner_at,owner_at+decode('<I2',stored,OWNER_LEN+ALONE_SHIFT)-1)
    end
  end
end

