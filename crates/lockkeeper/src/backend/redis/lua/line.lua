-- The line of one name: needs K, Q, W, G, id, r (what K holds) and now.
--   free     last
--   alone    last, expires, \1, id, capacity, tail     one holder whose token is `last`, and who was granted at once
--   else     the header that save() writes; W holds each claim by its id, Q the tokens of those who wait
--   claim    token, expires, since, granted, tail, channel
--   tail     weight, life, wait, length, then what is shown: client, length of name, epoch, flags, lengths, texts
-- In W stand besides: `*`, the observers. G holds the ids that are gone. Only in the last form Q and W mean anything.
local NONE,CLAIM='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0','<dddBI4dI4I4'
local last,low,at,nq,n,S,cap,head,tomb,obs,swept,long,touch,emax=0,math.huge,0,0,0,0,'\0\0\0\0',NONE,0,0,0,0,0,0
local shared,fresh,dirty,rec=false,false,false,nil
if r then
  last=up('<d',r)
  if #r>8 then
    if byte(r,17)==1 then
      local own,life=sub(r,1,8)
      S,life=up('<I4d',r,38)
      n,low,cap,head,emax=1,up('<d',r,9),sub(r,34,37),sub(r,18,33),up('<I2',r,67)
      at,long=low-life,life/1000
      rec=own..sub(r,9,16)..own..'\1'..sub(r,38)
    else
      local _
      shared=true
      last,low,_,at,nq,n,S,cap,head,tomb,obs,swept,long,touch,emax=up('<ddc1dI4I4dc4c16ddddI4I2',r)
    end
  end
end
local last0,left0,touch0=last,2*nq+n,touch
local function publish(to,what)
  call(byte(to)==115 and 'SPUBLISH' or 'PUBLISH',sub(to,2),what)
end
local function get(h)
  if shared then return call('HGET',W,h) end
  return h==head and rec
end
-- What Q and W may still hold is of a line that somebody has deleted.
local function share()
  if shared then return end
  shared,fresh=true,true
  call('DEL',Q,W)
  if n==1 then call('HSET',W,head,rec) end
end
local function put(h,v)
  share()
  call('HSET',W,h,v)
end
local function all()
  if shared then return call('HGETALL',W) end
  return n==1 and {head,rec} or {}
end
-- Counts anew: removes who died, and shortens the lives that a clock has made longer by going back.
local function count()
  local claims=all()
  n,nq,S,low,emax,dirty=0,0,0,math.huge,0,true
  for i=1,#claims,2 do
    local h,v=claims[i],claims[i+1]
    if #h==16 then
      local _,exp,_,granted,w,life,wait=up(CLAIM,v)
      -- Who was granted by a push may still be on the life of a waiter.
      local most=now+math.max(wait*1000,granted==1 and life or 0)
      if exp<=now then
        if shared then call('HDEL',W,h) end
        if granted==0 then call('ZREM',Q,h) end
        if h==head then head=NONE end
      else
        if exp>most then
          exp,v=most,sub(v,1,8)..pk('<d',most)..sub(v,17)
          if shared then call('HSET',W,h,v) else rec=v end
        end
        if granted==1 then
          n,S=n+1,S+w
          if exp<low then low=exp end
        else nq=nq+1 end
        emax=math.max(emax,(up('<I2',v,55)))
      end
    end
  end
end
-- `low` is not above the expiry of any holder, and `at` not more than a second below any renewal.
local function clear()
  if now>=low or now<at then count() end
end
-- Grants from the front until one does not fit. With `front` the dead are cleared away where nothing is free, too.
local function settle(front)
  clear()
  local C=up('<I4',cap)
  while nq>0 and (S<C or front) do
    local h=call('ZRANGE',Q,'0','0')[1]
    local v=h and call('HGET',W,h)
    if not v then
      if h then call('ZREM',Q,h) nq=nq-1 else nq=0 end
      dirty=true
    else
      local _,exp,_,_,w,_,_,ml=up(CLAIM,v)
      local lives=exp>now
      if lives and S+w>C then break end
      call('ZREM',Q,h)
      nq,dirty=nq-1,true
      if lives then
        n,S=n+1,S+w
        if n==1 then head=h end
        if exp<low then low=exp end
        call('HSET',W,h,sub(v,1,16)..pk('<dB',now,1)..sub(v,26))
        if h~=id then publish(sub(v,46+ml),'g'..h..sub(v,1,8)) end
      else call('HDEL',W,h) end
    end
  end
end
-- Removes a claim; `v` is what W holds of it.
local function take(h,v)
  local _,_,_,granted,w=up(CLAIM,v)
  dirty=true
  if shared then call('HDEL',W,h) end
  if granted==1 then
    n,S=n-1,S-w
    if h==head then head=NONE end
  elseif call('ZREM',Q,h)==1 then nq=nq-1 end
end
local function tell()
  local list,keep,p=call('HGET',W,'*') or '',{},1
  obs=0
  while p<=#list do
    local exp,len=up('<dI2',list,p)
    local e=p+10+len
    if exp>now then
      keep[#keep+1]=sub(list,p,e-1)
      if exp>obs then obs=exp end
      publish(sub(list,p+10,e-1),'c'..sub(K,5,-2))
    end
    p=e
  end
  if #keep==0 then call('HDEL',W,'*') else call('HSET',W,'*',table.concat(keep)) end
end
local function save()
  if tomb<=now then tomb=0 end
  if obs>0 and (obs<=now or last~=last0 or 2*nq+n~=left0 or touch~=touch0) then tell() end
  if n==0 and nq==0 then
    S,low,head,emax,long=0,math.huge,NONE,0,0
    if tomb==0 and obs==0 then call('SET',K,pk('<d',last),'KEEPTTL') return end
  end
  share()
  local v=pk('<ddc1dI4I4dc4c16ddddI4I2',last,low,'\0',now,nq,n,S,cap,head,tomb,obs,swept,long,touch,emax)
  -- Nothing outlives its key: each hour they all get a day more than the longest life.
  if fresh or at<now-now%3600000000 or at>now then
    -- And the last token outlives the time that it says it is, else a clock that was ahead would bring old ones back.
    local px=string.format('%.0f',math.max(172800000,long+86400000,(last-now)/1000+172800000))
    call('SET',K,v,'PX',px)
    call('PEXPIRE',W,px)
    if nq>0 then call('PEXPIRE',Q,px) end
  else call('SET',K,v,'KEEPTTL') end
end
local function bury(ms)
  local till=now+ms*1000
  -- In this order G is never empty: in a slot on its way the next call would fail, half-way.
  call('ZADD',G,'GT',till,id)
  call('ZREMRANGEBYSCORE',G,'-inf',now)
  if till>tomb then tomb=till end
  call('PEXPIREAT',G,math.ceil(tomb/1000)+1000)
  dirty=true
end
