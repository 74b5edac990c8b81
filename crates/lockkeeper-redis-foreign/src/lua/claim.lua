-- CLAIM. ARGV: 4 ttl, 5 lock-delay (microseconds), 6 weight, 7 capacity, 8 whether an earlier copy
-- may have been processed, 9 the life of a tombstone in ms, 10 epoch, 11 the text of the owner, 12
-- the reason, 13 the value, 14 the claim to replace, 15 the life for a key without one in ms, 16
-- whether the claim waits in the queue, 17 for how long without a renewal (microseconds), 18 behind
-- how many waiters at most.
-- KEYS: 5 the further key of the claim to replace.
--
-- Answers the owner, and then 'h', token and ttl for a holder, 'g' for a claim that is gone, 'e'
-- and the higher epoch of another claim, 'q', how many are ahead and in how many ms to look again
-- for a waiter, 'f' and the number of waiters for a full queue, or 'b' and the line.
local ttl,delay,weight,capacity=tonumber(ARGV[4]),tonumber(ARGV[5]),tonumber(ARGV[6]),tonumber(ARGV[7])
local epoch,replaced=tonumber(ARGV[10]),ARGV[14]
if call('EXISTS',gone)==1 then return {owner,'g'} end
advance()
local record=record_of(owner)
if stands(owner) then
  if not record or record[BREAKER] then return {owner,'g'} end
  remember(life(record))
  prolong(owner,life(record),record)
  return {owner,'h',record[TOKEN],record[TTL]}
end
if record and record[BREAKER] then return {owner,'g'} end
if waits(record) then return queued(owner,record) end
if ARGV[8]=='1' then
  call('SET',gone,'1','PX',ARGV[9])
  return {owner,'g'}
end
local no_token=refusal()
if no_token then return no_token end
local function too_low(holders)
  for i=2,#holders do
    local other=holders[i][5]
    if other and other[EPOCH]>epoch then return {owner,'e',other[EPOCH]} end
  end
end
local taken,problem=false,nil
if replaced~='' or SHARED and top_epoch()>epoch then
  local holders,strangers=line()
  if not holders then return strange(strangers) end
  local refused=too_low(holders)
  if refused then return refused end
  if replaced~='' then
    local old=holders[2]
    if #holders~=2 or old[1]~=replaced or not old[5] or old[5][BREAKER] then return {owner,'b',holders} end
    problem=too_few(weight)
    if problem then return strange(problem) end
    drop(replaced,KEYS[5])
    call('HDEL',side,replaced)
  end
end
taken,problem=take(owner,millis(ttl+delay),weight,capacity)
if problem then return strange(problem) end
local now=micros()
record={0,ttl,delay,weight,capacity,0,now,epoch,ARGV[11],optional(ARGV[12]),
  optional(ARGV[13]),false,false,false,false,false,tonumber(ARGV[17]),false}
if taken then
  record[TOKEN]=next_token(now)
  write(owner,record)
  raise_epoch(epoch)
  remember(life(record))
  forget(now)
  -- The claim may weigh less than the one that it replaces.
  if replaced~='' then wake() end
  -- Contending waiters have nothing to do at a grant.
  report_grant()
  report()
  return {owner,'h',record[TOKEN],ttl}
end
local holders,strangers=line()
if not holders then return strange(strangers) end
-- When the clock of the server goes back, Redis keeps every key for longer by as much.
for i=2,#holders do
  local holder,its=holders[i],holders[i][5]
  if holder[3]~=WAITER and its and holder[2]>life(its) then
    prolong(holder[1],life(its),its)
    holder[2]=life(its)
  end
end
adopt(tonumber(ARGV[15]))
local refused=too_low(holders)
if refused then return refused end
local place=ARGV[16]=='1' and join(record)
if place and place[2]=='q' then
  raise_epoch(epoch)
  -- Where others always wait, no claim is granted at once.
  forget(micros())
end
return place or {owner,'b',holders}
