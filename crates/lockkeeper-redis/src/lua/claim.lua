-- CLAIM, the rest: the lock is not free, or the claim is not a plain one. The order of the checks
-- is that of Store::claim.
local capacity,weight,lease,wait=decode('<I4I4dI4',sent,CAPACITY-SENT_SHIFT)
local sent_tail,epoch=sub(sent,CAPACITY-SENT_SHIFT),decode('<I2',sent,EPOCH-SENT_SHIFT)
local options,max_waiters=decode('<BI4',ARGV[2])
options=options-DIGIT_0
needs_no_memory=false
own_channel=sub(ARGV[2],6)

-- Writes the changes, and answers with one number. Every answer below writes first: if the server
-- refuses that, the client gets an error, and neither a grant nor a place in the queue.
local function answer(letter,number)
  write_changes()
  return id_prefix..letter..encode('<dd',now,number)
end

-- The claim holds the lock since an earlier request: answers its token, and its ttl in µs, which
-- may differ from the ttl of this request.
local function answer_held(claim,token)
  return answer('g',token)..encode('<d',decode('<d',claim,LIFE)-1000*decode('<I4',claim,DELAY))
end

-- The beginning of an answer that has the revision of the line.
local function answer_with_state(letter)
  write_changes()
  return id_prefix..letter..encode('<dddd',now,last_token,2*waiters+holders,touched)
end

-- The claim waits behind `ahead` claims, holders included. The first waiter learns when the next
-- holder would die, and looks then; the others get -1.
local function answer_queued(ahead)
  -- This answer says the same as a wake-up would.
  if first_waiter==id then first_waiter=nil end
  return answer_with_state('q')..encode('<dI4',ahead==holders and next_expiry-now or -1,ahead)
end

-- The lock is taken, and the claim does not wait. The answer has the time at which the next holder
-- would die, and the owner of one holder.
local function answer_busy()
  local claim,owner=holders>0 and claim_of(first_holder),''
  -- The only holder is not `first_holder` if it has a minimum hold. To read all claims for a name
  -- is worth it in a short line.
  if not claim and holders==1 and waiters<10 then
    for _,other in pairs(all_claims()) do
      if byte(other,GRANTED)==1 then claim=other end
    end
  end
  if claim then
    local owner_at=TEXTS+byte(claim,NAME_LEN)
    owner=sub(claim,owner_at,owner_at+decode('<I2',claim,OWNER_LEN)-1)
  end
  return answer_with_state('b')..encode('<d',holders>0 and next_expiry-now or -1)..owner
end

-- Adds the caller's claim to the line, and GIVES IT ITS FENCING TOKEN: the server's time, or the
-- last token + 1 where that is more. So each token is above all earlier ones of the lock: if the
-- clock goes back, since the last token is stored; if Redis has lost the lock, since the time went
-- on. The counts of the header are the caller's business.
local function add_claim(granted,expires,channel)
  last_token=now>last_token and now or last_token+1
  if holders==0 and waiters==0 then
    prolongs=true
    if granted==1 then first_holder=id end
  end
  set_claim(id,encode('<dddB',last_token,expires,now,granted)..sent_tail..channel)
  if epoch>max_epoch then max_epoch=epoch end
  if lease/1000>longest_life then
    longest_life=lease/1000
    if longest_life>DAY_MS then prolongs=true end
  end
  header_changed=true
end

-- GRANTS the caller's claim at once, and answers its token. The weight has to fit; `min_hold_till`
-- and `span` are the minimum hold that it inherits, if any.
local function grant(min_hold_till,span)
  local expires=now+lease
  add_claim(1,expires,'')
  holders,weight_held=holders+1,weight_held+weight
  count_capacity(capacity)
  if expires<next_expiry then next_expiry=expires end
  header_changed=true
  if min_hold_till and min_hold_till>now then set_min_hold(id,claim_of(id),min_hold_till,span) end
  return answer('g',last_token)
end

-- Dead holders leave and waiters are granted first, whatever becomes of this claim.
grant_waiters()

-- A tombstone: the id was withdrawn, and this is a late copy of its request. Gone ('x').
if tombstones_until>now then
  local till=call('ZSCORE',tombstones_key,id)
  if till and till+0>now then return answer('x',0) end
end

-- The id is known: this is a replay, or the waiter looks at its state. The answer is the state of
-- the claim, and its life starts again. No second claim is added. The client that has sent the
-- claim now waits for it, and gets its messages. A client that got the messages before is NOTIFIED
-- ('t'). If that client still waits, and this is a late copy of another client's request, it claims
-- again, and gets the messages back. If it does not wait, it forgets the claim.
local claim=claim_of(id)
if claim then
  local token,expires,_,granted,_,_,claim_life,claim_wait=decode(CLAIM_FORMAT,claim)
  local position=granted==0 and waiters_ahead(id)
  if expires>now and (position or granted==1) then
    -- A marked claim is not extended.
    if byte(claim,FLAGS)%(2*BROKEN)>=BROKEN then return answer('x',0) end
    expires=now+(granted==1 and claim_life or claim_wait*1000)
    local channel=granted==0 and own_channel or ''
    local channel_at=SHOWN+decode('<I4',claim,LENGTH)
    if channel~='' and sub(claim,channel_at)~=channel then
      notify(sub(claim,channel_at),'t'..id)
      claim=sub(claim,1,channel_at-1)..channel
    end
    claim=sub(claim,1,EXPIRES-1)..encode('<d',expires)..sub(claim,SINCE,CLIENT-1)
      ..sub(sent,CLIENT-SENT_SHIFT,DELAY-SENT_SHIFT-1)..sub(claim,DELAY)
    set_claim(id,claim)
    if granted==1 then
      -- With other holders `next_expiry` may stay too low. That costs a recount, and is safe.
      if holders==1 or expires<next_expiry then next_expiry=expires end
      header_changed=true
      return answer_held(claim,token)
    end
    -- Keeps `written_at` within a second of each renewal: see recount_if_due().
    if now-written_at>SECOND then header_changed=true end
    if position>0 then
      grant_waiters(true)
      position=waiters_ahead(id)
    end
    return answer_queued(holders+position)
  end
  -- The claim died inside the queue, or lost its place there. Its id is not known any more.
  remove_claim(id,claim)
end

-- A repeated request whose first copy is not known: that copy may still arrive, and would be
-- granted with nobody there. So the id gets a tombstone instead of the lock.
if options%(2*RESEND)>=RESEND then
  add_tombstone(math.max(lease/1000,TOMBSTONE_MIN_MS))
  return answer('x',0)
end

-- Another kind of lock ('c'), or an epoch that is too low ('e'). A recount makes sure that the high
-- epoch is that of a live claim.
if holders>0 or waiters>0 then
  if (min_capacity==MAX)~=(capacity==MAX) then return answer('c',0) end
  if epoch<max_epoch then recount() end
  if epoch<max_epoch then return answer('e',max_epoch) end
end

-- The claim replaces the caller's own one: only if that is the only live claim, and not marked.
-- Exclusion: the old claim leaves in the same write, and its owner is the caller. The minimum hold
-- goes on.
if options>=REPLACES then
  local old=holders==1 and claim_of(ARGV[3])
  if old and waiters>0 then recount() end
  if not old or waiters>0 or byte(old,GRANTED)==0 or byte(old,FLAGS)%(2*BROKEN)>=BROKEN then return answer_busy() end
  remove_claim(ARGV[3],old)
  next_expiry=math.huge
  return grant(min_hold_of(old))
end

-- THE RULE OF ADMISSION (store::admit): nobody waits, and all weights fit the smallest capacity,
-- the claim's own included.
if waiters==0 and weight_held+weight<=math.min(min_capacity,capacity) then return grant() end
if options%(2*QUEUE)==0 then return answer_busy() end
-- The queue is full ('f'). Dead waiters inside it may count; a look for them reads all claims, so
-- once a second is enough.
if waiters>=max_waiters and (swept_at+SECOND<now or swept_at>now) then
  swept_at=now
  recount()
end
if waiters>=max_waiters then return answer('f',waiters) end
if waiters==0 then prolongs=true end
-- The claim joins the end of the queue: its token is the highest.
add_claim(0,now+wait*1000,own_channel)
joined_token=last_token
waiters=waiters+1
return answer_queued(holders+waiters-1)
