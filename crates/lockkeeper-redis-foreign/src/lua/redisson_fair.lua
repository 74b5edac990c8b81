-- RFAIRLOCK, behind the file of the RLock: its hash, and the waiters. KEYS: 4 a list of their
-- owners; 5 a sorted set with the time of each in milliseconds, from which on it counts as dead
-- when it is the first.
--
-- A waiter of Redisson gets the time of the waiter ahead and `fairLockWaitTimeout` more, and never
-- renews it. Each grant to a client of Redisson takes as much from the times of all waiters. A
-- waiter of lockkeeper renews its time, and ends soon without. So its time is its end, and STEP
-- more for each waiter of Redisson ahead, since the grant to that waiter takes the STEP away. A
-- grant of lockkeeper takes nothing from the others: its own time was no part of theirs.
local STEP=300000
-- In milliseconds, for an answer: no time is longer.
local FOREVER=9007199254740991
local function channel_of(of) return channel..':'..of end
local function is_known(of)
  return call('HEXISTS',main,of)==1 or call('LPOS',more,of) or waits(record_of(of))
end
local function leave(of)
  call('LREM',more,1,of)
  call('ZREM',scores,of)
end
-- In milliseconds; nothing for a waiter without a time, which Redisson lets stand too.
local function left_of(of,record,now)
  if record and record[UNTIL] then return millis(record[UNTIL]-now) end
  local time=tonumber(call('ZSCORE',scores,of) or '')
  return time and math.max(math.min(math.ceil(time-now/1000),FOREVER),0)
end
local function is_dead(of,record,now)
  local left=left_of(of,record,now)
  return left and left<=0
end
local function remove(of,record)
  leave(of)
  if record and not record[BREAKER] then call('HDEL',side,of) end
end
-- The first waiter that lives. Each script of Redisson removes the dead ones at the head too.
local function head(now)
  while true do
    local of=call('LINDEX',more,0)
    if not of then return end
    local record=record_of(of)
    -- The clock of the server has gone back.
    if waits(record) and record[UNTIL]>now+record[WAIT] then
      record[UNTIL]=now+record[WAIT]
      remember(life(record))
      write(of,record)
    end
    if not is_dead(of,record,now) then return of,record end
    remove(of,record)
  end
end
-- KEYS: 4 is no counter here.
local function refusal() end
-- A client of lockkeeper that observes the lock listens to the channel of the lock.
local function report()
  if is_awaited('w') then send('0') end
end
-- The life of the claim stays what it was: the client renews it. If the client has died, no message
-- comes at the end. So the next waiter of Redisson looks, which then sleeps for that life and no
-- longer; the waiters of lockkeeper before it may have died too, and look with each renewal.
local function grant(of,record,now)
  leave(of)
  call('HSET',main,of,1)
  call('PEXPIRE',main,math.max(millis(record[UNTIL]-now),1))
  record[TOKEN],record[SINCE],record[UNTIL]=next_token(now),now,false
  write(of,record)
  send('0',channel_of(of))
  for _,next_of in ipairs(call('LRANGE',more,0,-1)) do
    if call('HEXISTS',side,next_of)==0 then
      send('0',channel_of(next_of))
      break
    end
  end
  report_grant()
  report()
end
-- Gives a free lock to the first waiter, if that is one of lockkeeper. A waiter of Redisson gets a
-- message: it may have become the first without one, and takes the lock then.
local function advance()
  -- Nothing is written if a key has another type.
  call('HLEN',main)
  call('ZCARD',scores)
  local now=micros()
  local of,record=head(now)
  if not of or call('EXISTS',main)==1 then return end
  if waits(record) then
    grant(of,record,now)
  else
    send('0',channel_of(of))
  end
end
local function wake()
  report()
  advance()
end
local take_free=take
local function take(of,life)
  if call('LLEN',more)>0 then return false end
  return take_free(of,life)
end
local release=drop
local function drop(of)
  -- Nothing is written if a key has another type.
  call('LLEN',more)
  call('ZCARD',scores)
  if release(of) then return true end
  local record=record_of(of)
  if not call('LPOS',more,of) and not waits(record) then return false end
  local is_dead=is_dead(of,record,micros())
  leave(of)
  -- A client that waits for the claim learns that it is gone.
  send('0',channel_of(of))
  return not is_dead
end
local holders=owners
local function owners()
  local found,problem=holders()
  if not found then return nil,problem end
  local now=micros()
  for _,of in ipairs(call('LRANGE',more,0,-1)) do
    local left=left_of(of,record_of(of),now)
    if not left or left>0 then found[#found+1]={of,left or -1,WAITER} end
  end
  return found
end
-- A client of Redisson may have removed a waiter of lockkeeper whose time was over between two
-- renewals. It did so at the head of the list, so whichever waiter is there now came later, but for
-- others of lockkeeper that were removed and are back.
local function return_to_the_head(of,record)
  local before
  for _,other in ipairs(call('LRANGE',more,0,-1)) do
    local its=record_of(other)
    if not waits(its) or its[SINCE]>record[SINCE] then break end
    before=other
  end
  if before then
    call('LINSERT',more,'AFTER',before,of)
  else
    call('LPUSH',more,of)
  end
end
-- Removes the dead waiters of lockkeeper. A new waiter of Redisson would get its time from the last
-- one, although that has died long ago.
local function sweep(all,now)
  for _,of in ipairs(all) do
    local record=record_of(of)
    if record and record[UNTIL] and is_dead(of,record,now) then remove(of,record) end
  end
end
-- Renews the place of a waiter.
local function queued(of,record)
  local now,all=micros(),call('LRANGE',more,0,-1)
  record[UNTIL]=now+record[WAIT]
  remember(life(record))
  write(of,record)
  -- Seldom in a long queue, since it looks at all records.
  if #all<64 or now%16==0 then
    sweep(all,now)
    all=call('LRANGE',more,0,-1)
  end
  if not call('LPOS',more,of) then
    return_to_the_head(of,record)
    all=call('LRANGE',more,0,-1)
  end
  local ahead,theirs=0,0
  for _,other in ipairs(all) do
    if other==of then break end
    ahead=ahead+1
    if call('HEXISTS',side,other)==0 then theirs=theirs+1 end
  end
  call('ZADD',scores,math.ceil(record[UNTIL]/1000)+theirs*STEP,of)
  -- Redisson forgets no queue whose waiters have all died. This ends a day after the last one of
  -- lockkeeper.
  call('PEXPIRE',more,DAY)
  call('PEXPIRE',scores,DAY)
  local left=call('PTTL',main)
  if left~=-2 then return {of,'q',ahead+1,left} end
  local first_of=call('LINDEX',more,0)
  return {of,'q',ahead,left_of(first_of,record_of(first_of),now) or -1}
end
local function is_full(most,now)
  if call('LLEN',more)<most then return false end
  sweep(call('LRANGE',more,0,-1),now)
  return call('LLEN',more)>=most
end
local function join(record)
  local most=tonumber(ARGV[18])
  if is_full(most,micros()) then return {owner,'f',most} end
  -- A claim of this id has died here. A full server refuses the new one.
  local dead=call('LPOS',more,owner)
  call('RPUSH',more,owner)
  if dead then call('LREM',more,1,owner) end
  local place=queued(owner,record)
  -- The record may have made the key.
  remember(life(record))
  report()
  return place
end
