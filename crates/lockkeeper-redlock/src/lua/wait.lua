-- WAIT: a client waits for the lock outside of the line, or leaves.
-- KEYS: line, tombstone (unused), lk:born (unused), waiters. ARGV: waiter, ticket or '' to leave.
local waiter,ticket=ARGV[1],ARGV[2]
local line,wrong=read_line(KEYS[1])
if wrong then return wrong end
keep_moved(line)
local next=line.next
if ticket=='' then
  call('ZREM',KEYS[4],waiter)
  if next and next.waiter==waiter then
    call('HDEL',line.key,'n')
    line.next=nil
    hand_on(line,KEYS[4])
  end
  return {'left'}
end
if next and next.waiter==waiter then return {'free'} end
local exclusive=sub(waiter,-1)=='x'
call('ZADD',KEYS[4],ticket,waiter)
call('PEXPIRE',KEYS[4],WAITING)
local other,expires=conflict(line,exclusive)
if not other then
  hand_on(line,KEYS[4],waiter)
  expires=line.next and line.next.expires or now
end
local rank=call('ZRANK',KEYS[4],waiter)
if not rank then return {'free'} end
return {'wait',rank,math.max(expires-now,0)}
