-- THE STATE OF ONE LINE, and what changes it. Needs `stored`, `now`, the keys, and `id`: the
-- caller's own claim, or nothing.
--
-- A script reads the line here, decides in these locals, and writes once at its end
-- (write_changes() in write.lua). Until then Redis holds the old line. So code that reads a claim
-- or the queue has to look at `changed` and `leaving` first. The functions do that; each function
-- says what else it needs.
--
-- Exclusion is one invariant: `weight_held` is the sum of the weights of all holders, live or dead,
-- and kept; it never exceeds `min_capacity`. A holder is added in two places only, and both compare
-- the weights first: grant_waiters() here, and the rule of admission in claim.lua. (A claim that
-- replaces the only holder removes it first.)
local KEPT='\0\0\0\0kept'
local NO_ID,MAX,CLAIM_FORMAT='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0',EXCLUSIVE,'<dddBI4I4dI4I4'
-- The header: record.lua explains the fields of SHARED. A key that does not exist is an empty line
-- with last token 0. `observer_kinds` has the bits OBSERVED_PLAIN and OBSERVED_SHARDED; `may_keep`
-- has MAY_KEEP.
local last_token,next_expiry,written_at,waiters,holders,weight_held,min_capacity,first_holder,tombstones_until,
  observed_until,swept_at,longest_life,touched,max_epoch,observer_kinds,max_capacity=
  0,math.huge,0,0,0,0,MAX,NO_ID,0,0,0,0,0,0,0,0
-- Whether Redis holds SHARED; whether the keys must stay longer; whether the header is to be
-- written; the holder of ALONE, as a claim's record, and its id.
local is_shared,prolongs,header_changed,alone_claim,alone_id=false,false,false,nil,nil
-- Whether a claim may be kept, and whether this script has kept one; the waiter at the front that
-- has to wait on, and the wake-up that it would get: channel, message.
local may_keep,keeps_since_now,first_waiter,wake_up=false,false,nil,nil
-- The channel on which the caller's client receives grants, if the request says so.
local own_channel=nil
if stored then
  if #stored~=FREE_LENGTH and form_of(stored)==ALONE then
    local token,lease=sub(stored,1,8)
    min_capacity,weight_held,lease=decode('<I4I4d',stored,CAPACITY+ALONE_SHIFT)
    last_token,holders,next_expiry,max_capacity,first_holder,max_epoch=
      decode('<d',stored),1,decode('<d',stored,EXPIRES),min_capacity,sub(stored,ALONE_ID,33),
      decode('<I2',stored,EPOCH+ALONE_SHIFT)
    -- The last renewal set `expires` to its own time plus the life.
    written_at,longest_life=next_expiry-lease,lease/1000
    -- token, expires, since = token (the time of the grant), granted = 1, then as it is.
    alone_claim,alone_id=token..sub(stored,EXPIRES,16)..token..'\1'..sub(stored,CAPACITY+ALONE_SHIFT),first_holder
  elseif #stored~=FREE_LENGTH then
    local _
    is_shared=true
    last_token,next_expiry,_,written_at,waiters,holders,weight_held,min_capacity,first_holder,tombstones_until,
      observed_until,swept_at,longest_life,touched,max_epoch,observer_kinds,max_capacity=
      decode('<ddc1dI4I4dI4c16ddddI4I2BI4',stored)
    may_keep,observer_kinds=observer_kinds>=MAY_KEEP,observer_kinds%MAY_KEEP
  else last_token=decode('<d',stored) end
end
-- The revision as it was, and its observers: write_changes() compares, and publishes a change to
-- them.
local last_token_before,left_before,touched_before,observed_until_before,observer_kinds_before=
  last_token,2*waiters+holders,touched,observed_until,observer_kinds
-- What write_changes() is to write: the records by id, `false` for a removed claim; the ids that
-- leave the queue, as a set and as a list; the token with which `id` joins the queue; the end of
-- the tombstone of `id`; the messages.
local changed,leaving,leaving_ids,joined_token,tombstone_until,messages={},{},{},nil,nil,{}

-- Adds a message, which goes out after everything is written. `channel` begins with its kind, s or
-- p.
local function notify(channel,message)
  messages[#messages+1]={byte(channel)==SHARDED_CHANNEL and 'SPUBLISH' or 'PUBLISH',sub(channel,2),message}
end

-- Returns the record of a claim as this script leaves it, or nothing (`false` or nil).
local function claim_of(claim_id)
  local claim=changed[claim_id]
  if claim~=nil then return claim end
  if is_shared then return call('HGET',claims_key,claim_id) end
  return claim_id==alone_id and alone_claim
end

-- Sets the record of a claim, or removes it with `false`. The counts of the header are the caller's
-- business.
local function set_claim(claim_id,claim) changed[claim_id]=claim end

-- Takes an id out of the queue. `waiters` is the caller's business.
local function leave_queue(claim_id)
  if not leaving[claim_id] then leaving[claim_id],leaving_ids[#leaving_ids+1]=true,claim_id end
end

-- Returns how many wait ahead of this claim; nothing if it does not wait. Ids that leave now do not
-- count.
local function waiters_ahead(claim_id)
  local ahead=is_shared and not leaving[claim_id] and call('ZRANK',queue_key,claim_id)
  for i=1,ahead and #leaving_ids or 0 do
    local before=call('ZRANK',queue_key,leaving_ids[i])
    if before and before<ahead then ahead=ahead-1 end
  end
  return ahead
end

-- Returns the records of all claims by their ids, kept claims by their fields. A field of another
-- length is not ours.
local function all_claims()
  local claims,list={},is_shared and call('HGETALL',claims_key) or alone_id and {alone_id,alone_claim} or {}
  for i=1,#list,2 do
    if #list[i]==16 then claims[list[i]]=list[i+1] end
  end
  for claim_id,claim in pairs(changed) do claims[claim_id]=claim or nil end
  return claims
end

-- A claim that declares this capacity holds from now on. The smallest capacity decides, so no
-- holder sees more weight than it has declared.
local function count_capacity(capacity)
  min_capacity,max_capacity=math.min(min_capacity,capacity),math.max(max_capacity,capacity)
end

-- Returns the end of a claim's minimum hold, its length, and the end that the record says; zeros
-- without one. After the clock went back, the recorded end may be too far away: the end is never
-- further away than the length.
local function min_hold_of(claim)
  if byte(claim,FLAGS)<MIN_HOLD then return 0,0,0 end
  local written,span=decode('<dd',claim,SHOWN+decode('<I4',claim,LENGTH))
  return math.min(written,now+span),span,written
end

-- Gives a holder a minimum hold of `span` that ends at `till`. The end takes the place of the
-- channel, which a holder does not need. WITHDRAW removes `first_holder` without reading its
-- record, and would not see the minimum hold; so a claim with a minimum hold is never
-- `first_holder`.
local function set_min_hold(claim_id,claim,till,span)
  if claim_id==first_holder then first_holder=NO_ID end
  if span/1000>longest_life then longest_life,prolongs=span/1000,true end
  set_claim(claim_id,sub(claim,1,FLAGS-1)..string.char(byte(claim,FLAGS)%MIN_HOLD+MIN_HOLD)
    ..sub(claim,FLAGS+1,SHOWN-1+decode('<I4',claim,LENGTH))..encode('<dd',till,span))
  header_changed=true
end

-- The owner of a claim has released it, or has died. If the minimum hold goes on, the claim is kept
-- until that ends, and the end is returned: its weight and its token stay, so `holders` and
-- `weight_held` stay as they are. Its new field is no id, so a late renewal or withdrawal of the
-- owner does not find it. Returns nothing, and changes nothing, where no minimum hold goes on, or
-- the claim is already kept.
local function keep_for_min_hold(claim_id,claim)
  local till=min_hold_of(claim)
  if till<=now or sub(claim_id,9)==KEPT then return end
  set_claim(claim_id,false)
  set_claim(sub(claim,1,8)..KEPT,sub(claim,1,EXPIRES-1)..encode('<d',till)..sub(claim,SINCE)..claim_id)
  may_keep,keeps_since_now=true,true
  touched,header_changed=touched+1,true
  if till<next_expiry then next_expiry=till end
  return till
end

-- FREES DEAD CLAIMS: reads all claims, removes the expired ones, and computes the header from the
-- rest. A holder is dead once `expires` has passed on the server's clock; its client stops to
-- report the lock as held a lock delay earlier. A dead holder with a minimum hold is kept. A clock
-- that went back would make all lives longer. So no claim may live for more than its whole life, or
-- the length of its minimum hold, from now on. That takes no time from a holder: its last renewal
-- promised the same life, and has passed.
local function recount()
  local claims=all_claims()
  holders,waiters,weight_held,next_expiry,max_epoch,header_changed,min_capacity,max_capacity,may_keep=
    0,0,0,math.huge,0,true,MAX,0,false
  for claim_id,claim in pairs(claims) do
    local _,expires,_,granted,capacity,weight,lease,wait=decode(CLAIM_FORMAT,claim)
    local ends,span,written=min_hold_of(claim)
    -- Written down, since `now+span` would move with each later look.
    if ends<written then
      local min_hold_at=SHOWN+decode('<I4',claim,LENGTH)
      claim=sub(claim,1,min_hold_at-1)..encode('<d',ends)..sub(claim,min_hold_at+8)
      set_claim(claim_id,claim)
    end
    -- A holder that was granted out of the queue has the life of a waiter until it renews, so the
    -- longer one counts.
    local latest=now+(sub(claim_id,9)==KEPT and span or math.max(wait*1000,granted==1 and lease or 0))
    local kept_till=expires<=now and keep_for_min_hold(claim_id,claim)
    if kept_till then expires=kept_till
    elseif expires<=now then
      set_claim(claim_id,false)
      if granted==0 then leave_queue(claim_id) end
      if claim_id==first_holder then first_holder=NO_ID end
    elseif expires>latest then
      expires=latest
      set_claim(claim_id,sub(claim,1,EXPIRES-1)..encode('<d',latest)..sub(claim,SINCE))
    end
    if expires>now then
      if granted==1 then
        holders,weight_held=holders+1,weight_held+weight
        count_capacity(capacity)
        if expires<next_expiry then next_expiry=expires end
        may_keep=may_keep or sub(claim_id,9)==KEPT
      else waiters=waiters+1 end
      max_epoch=math.max(max_epoch,(decode('<I2',claim,EPOCH)))
    end
  end
end

-- Recounts if a holder may be dead, or if the clock went back. Otherwise no holder is dead: none
-- expires before `next_expiry`. And no life is longer than it may be, but for one second:
-- `written_at` is at most a second older than the last renewal.
local function recount_if_due()
  if now>=next_expiry or now<written_at then recount() end
end

-- Returns the id at the front of the queue, without those that leave; nothing if there is none. The
-- first `skipped` ids all leave: Redis keeps them in the queue until write_changes().
local skipped=0
local function first_in_queue()
  while true do
    local claim_id=call('ZRANGE',queue_key,skipped,skipped)[1]
    if not claim_id or not leaving[claim_id] then return claim_id end
    skipped=skipped+1
  end
end

-- GRANTS WAITERS, from the front of the queue, until one does not fit: nobody overtakes. Every
-- script that reads a line calls this function, but LOOK. So the next script of any client removes
-- a dead holder, and grants the next waiter. Dead waiters at the front leave. Exclusion:
-- recount_if_due() has removed dead holders and nobody else, and a waiter is granted only if all
-- weights fit the smallest capacity. Order: `:q` is sorted by token, so tokens of grants rise. A
-- grant is sticky: nothing makes a holder a waiter again. The grant does not extend `expires`,
-- since the client does not know about the grant yet: if it never does, the claim ends with its
-- life as a waiter. A granted waiter is NOTIFIED ('g') by its channel. CLAIM leaves that out for
-- its own id if the channel is that of the caller, which has the grant in the answer. RENEW does
-- not know its client, so it notifies. With `clears_front`, and where a claim may be kept, dead
-- waiters leave the front even if nothing is free. A second call with `clears_front` in the same
-- script only does that: what the first call left free does not fit the first waiter. Afterwards
-- `first_waiter` is the live waiter at the front that does not fit, if this call has found it.
local function grant_waiters(clears_front)
  recount_if_due()
  first_waiter=nil
  if holders==0 then min_capacity,max_capacity=MAX,0 end
  while waiters>0 and (weight_held<min_capacity or clears_front or may_keep) do
    local claim_id=first_in_queue()
    local claim=claim_id and claim_of(claim_id)
    if not claim then
      -- The hash or the sorted set lacks what the header counts: it was deleted, or the server has
      -- evicted it.
      if claim_id then leave_queue(claim_id) waiters=waiters-1 else waiters=0 end
      header_changed=true
    else
      local _,expires,_,_,capacity,weight,_,_,length=decode(CLAIM_FORMAT,claim)
      local alive=expires>now
      if alive and weight_held+weight>math.min(min_capacity,capacity) then
        first_waiter,wake_up=claim_id,{sub(claim,SHOWN+length),'a'..claim_id}
        break
      end
      leave_queue(claim_id)
      waiters,header_changed=waiters-1,true
      if alive then
        holders,weight_held=holders+1,weight_held+weight
        count_capacity(capacity)
        if holders==1 then first_holder=claim_id end
        if expires<next_expiry then next_expiry=expires end
        -- since = now, granted = 1
        set_claim(claim_id,sub(claim,1,SINCE-1)..encode('<dB',now,1)..sub(claim,CAPACITY))
        local channel=sub(claim,SHOWN+length)
        if claim_id~=id or channel~=own_channel then notify(channel,'g'..claim_id..sub(claim,1,8)) end
      else set_claim(claim_id,false) end
    end
  end
end

-- Removes a claim, holder or waiter, at once. `claim` is its record, from claim_of() or
-- all_claims(). grant_waiters() has to follow, so that the freed weight goes to the next waiter.
local function remove_claim(claim_id,claim)
  local _,_,_,granted,capacity,weight=decode(CLAIM_FORMAT,claim)
  header_changed=true
  set_claim(claim_id,false)
  if granted==1 then
    holders,weight_held=holders-1,weight_held-weight
    if claim_id==first_holder then first_holder=NO_ID end
    -- The smallest capacity may have left. Where all holders declare the same, nothing has to be
    -- read for that.
    if holders==0 then min_capacity,max_capacity=MAX,0
    elseif capacity==min_capacity and min_capacity<max_capacity then recount() end
  elseif not leaving[claim_id] and call('ZSCORE',queue_key,claim_id) then
    leave_queue(claim_id)
    waiters=waiters-1
  end
end

-- Gives `id` a tombstone for `ms`: CLAIM refuses the id as long as it stands, so a late copy of a
-- withdrawn request grants nothing. FREE and ALONE cannot say that a tombstone stands, so
-- write_changes() writes SHARED as long as one does.
local function add_tombstone(ms)
  tombstone_until=now+ms*1000
  if tombstone_until>tombstones_until then tombstones_until=tombstone_until end
  header_changed=true
end

