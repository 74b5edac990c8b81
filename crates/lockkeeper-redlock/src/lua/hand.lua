
-- The waiters of a lock are forgotten after this time without a request.
local WAITING=60000

-- Lets the first waiters claim next, if the lock is free for them. The message goes to their
-- clients; a client without a connection is passed by. `own` sends this request, and needs no
-- message.
local function hand_on(line,waiting,own)
  for _=1,64 do
    -- A value of another program has no first element: nobody waits here.
    local head=redis.pcall('ZRANGE',waiting,0,0,'WITHSCORES')
    if not head[1] then return end
    local waiter,ticket=head[1],tonumber(head[2])
    local exclusive,next=sub(waiter,-1)=='x',line.next
    if conflict(line,exclusive) then return end
    if next and (next.exclusive or exclusive) and next.ticket<=ticket then return end
    call('ZREM',waiting,waiter)
    local sent=1
    if waiter~=own then
      sent=redis.pcall('PUBLISH','lk:r:w:'..sub(waiter,1,16),sub(waiter,17,24))
    end
    if sent~=0 then
      -- A later waiter gives way to an earlier one.
      if next and next.exclusive then
        call('ZADD',waiting,next.ticket,next.waiter)
        call('PEXPIRE',waiting,WAITING)
      end
      line.next={expires=now+RESERVED,ticket=ticket,exclusive=exclusive,waiter=waiter}
      call('HSET',line.key,'n',struct.pack(RESERVATION,now+RESERVED,ticket,exclusive and 1 or 0)
        ..waiter)
      -- The line of a lock that nobody has claimed here is new.
      if call('PTTL',line.key)<0 then call('PEXPIRE',line.key,DAY) end
      if exclusive then return end
    end
  end
end
