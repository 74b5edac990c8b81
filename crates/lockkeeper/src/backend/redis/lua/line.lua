-- The line of one name: needs K, Q, W, G, id, r (what K holds) and now.
--   free     last
--   alone    last, expires, \17, id, capacity, tail    one holder whose token is `last`, and who was granted at once
--   else     the header that finish() packs; W holds each claim by its id, Q the tokens of those who wait
--   claim    token, expires, since, granted, capacity, tail, channel
--   kept     token, expires, since, granted, capacity, tail, end and length of its minimum hold, id
--   tail     weight, life, wait, length, then what is shown: client, length of name, epoch, flags, lengths, texts
-- G holds the ids that are gone. Only in the last form Q and W mean anything. Byte 17 tells the form: see form().
--
-- A script reads, decides, and writes at its end (finish()): nothing is changed before the last command that a server may
-- refuse. So what reads W or Q here has to look at `changed` and `out` first.
local KEPT='\0\0\0\0kept'
local NONE,MAX,CLAIM='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0',4294967295,'<dddBI4I4dI4I4'
-- The holders: n of them, with weights of S together. `cap` is the smallest capacity that one of them knows, and counts;
-- `top` is the largest. `kinds` says how observers are told (1: by a channel, 2: by that of a shard); with it stands (4) whether
-- something may be kept.
local last,low,at,nq,n,S,cap,head,tomb,obs,swept,long,touch,emax,kinds,top=
  0,math.huge,0,0,0,0,MAX,NONE,0,0,0,0,0,0,0,0
local shared,fresh,dirty,rec,alone=false,false,false,nil,nil
-- Whether something may be kept, and whether it is from now on; who is the first behind it, and what that one is told.
local keeps,keeps_more,heir,word=false,false,nil,nil
if r then
  if #r~=8 and form(r)==17 then
    local own,lease=sub(r,1,8)
    cap,S,lease=up('<I4I4d',r,34)
    last,n,low,top,head,emax=up('<d',r),1,up('<d',r,9),cap,sub(r,18,33),up('<I2',r,67)
    at,long=low-lease,lease/1000
    rec,alone=own..sub(r,9,16)..own..'\1'..sub(r,34),head
  elseif #r~=8 then
    local _
    shared=true
    last,low,_,at,nq,n,S,cap,head,tomb,obs,swept,long,touch,emax,kinds,top=up('<ddc1dI4I4dI4c16ddddI4I2BI4',r)
    keeps,kinds=kinds>=4,kinds%4
  else last=up('<d',r) end
end
-- As it was: what is different in the end is told to those who observe it now.
local last0,left0,touch0,obs0,kinds0=last,2*nq+n,touch,obs,kinds
-- What is to be written: claims by id, `false` for one that is removed; who leaves Q, and who joins; who is gone till
-- when; who is told what.
local changed,out,outs,joined,tombstone_until,pushes={},{},{},nil,nil,{}
local function push(to,what)
  pushes[#pushes+1]={byte(to)==115 and 'SPUBLISH' or 'PUBLISH',sub(to,2),what}
end
local function get(h)
  local v=changed[h]
  if v~=nil then return v end
  if shared then return call('HGET',W,h) end
  return h==alone and rec
end
local function put(h,v) changed[h]=v end
local function leave(h)
  if not out[h] then out[h],outs[#outs+1]=true,h end
end
-- How many wait before it; nothing for one that does not wait.
local function rank(h)
  local k=shared and not out[h] and call('ZRANK',Q,h)
  for i=1,k and #outs or 0 do
    local before=call('ZRANK',Q,outs[i])
    if before and before<k then k=k-1 end
  end
  return k
end
-- The claims by their ids.
local function all()
  local claims,list={},shared and call('HGETALL',W) or alone and {alone,rec} or {}
  for i=1,#list,2 do
    if #list[i]==16 then claims[list[i]]=list[i+1] end
  end
  for h,v in pairs(changed) do claims[h]=v or nil end
  return claims
end
-- Somebody who knows this capacity holds.
local function narrow(of) cap,top=math.min(cap,of),math.max(top,of) end
-- The end and the length of a claim's minimum hold, and the end that is written. A clock that goes back makes none longer:
-- the end is never further away than the length.
local function minimum(v)
  if byte(v,61)<32 then return 0,0,0 end
  local written,span=up('<dd',v,50+up('<I4',v,46))
  return math.min(written,now+span),span,written
end
-- Gives a claim that holds a minimum hold. `head` is never such a one: to remove it is not enough.
local function hold(h,v,till,span)
  if h==head then head=NONE end
  if span/1000>long then long,fresh=span/1000,true end
  put(h,sub(v,1,60)..string.char(byte(v,61)%32+32)..sub(v,62,49+up('<I4',v,46))..pk('<dd',till,span))
  dirty=true
end
-- Nobody has the claim any more. What it takes stays taken while its minimum hold lasts: until when, if it does. Then it
-- has another name, which nobody asks for.
local function keep(h,v)
  local till=minimum(v)
  if till<=now or sub(h,9)==KEPT then return end
  put(h,false)
  put(sub(v,1,8)..KEPT,sub(v,1,8)..pk('<d',till)..sub(v,17)..h)
  keeps,keeps_more=true,true
  touch,dirty=touch+1,true
  if till<low then low=till end
  return till
end
-- Counts anew: removes who died, and shortens the lives that a clock has made longer by going back.
local function count()
  local claims=all()
  n,nq,S,low,emax,dirty,cap,top,keeps=0,0,0,math.huge,0,true,MAX,0,false
  for h,v in pairs(claims) do
    local _,exp,_,granted,of,w,lease,wait=up(CLAIM,v)
    local ends,span,written=minimum(v)
    -- The clock has gone back. The end of another time would give the whole length again at each later look.
    if ends<written then
      local from=50+up('<I4',v,46)
      v=sub(v,1,from-1)..pk('<d',ends)..sub(v,from+8)
      put(h,v)
    end
    -- Who was granted by a push may still be on the life of a waiter.
    local most=now+(sub(h,9)==KEPT and span or math.max(wait*1000,granted==1 and lease or 0))
    -- Its life is over, its minimum hold is not.
    local till=exp<=now and keep(h,v)
    if till then exp=till
    elseif exp<=now then
      put(h,false)
      if granted==0 then leave(h) end
      if h==head then head=NONE end
    elseif exp>most then
      exp=most
      put(h,sub(v,1,8)..pk('<d',most)..sub(v,17))
    end
    if exp>now then
      if granted==1 then
        n,S=n+1,S+w
        narrow(of)
        if exp<low then low=exp end
        keeps=keeps or sub(h,9)==KEPT
      else nq=nq+1 end
      emax=math.max(emax,(up('<I2',v,59)))
    end
  end
end
-- `low` is not above the expiry of any holder, and `at` not more than a second below any renewal.
local function clear()
  if now>=low or now<at then count() end
end
local skip=0
local function first()
  while true do
    local h=call('ZRANGE',Q,skip,skip)[1]
    if not h or not out[h] then return h end
    skip=skip+1
  end
end
-- Grants from the front until one does not fit. With `front`, and where something is kept, the dead are cleared away where
-- nothing is free, too. Once settle() was called, settle(true) neither grants nor removes a claim that lives: what is free
-- then the first cannot use.
local function settle(front)
  clear()
  heir=nil
  if n==0 then cap,top=MAX,0 end
  while nq>0 and (S<cap or front or keeps) do
    local h=first()
    local v=h and get(h)
    if not v then
      if h then leave(h) nq=nq-1 else nq=0 end
      dirty=true
    else
      local _,exp,_,_,of,w,_,_,ml=up(CLAIM,v)
      local alive=exp>now
      if alive and S+w>math.min(cap,of) then
        heir,word=h,{sub(v,50+ml),'a'..h}
        break
      end
      leave(h)
      nq,dirty=nq-1,true
      if alive then
        n,S=n+1,S+w
        narrow(of)
        if n==1 then head=h end
        if exp<low then low=exp end
        put(h,sub(v,1,16)..pk('<dB',now,1)..sub(v,26))
        if h~=id then push(sub(v,50+ml),'g'..h..sub(v,1,8)) end
      else put(h,false) end
    end
  end
end
-- Removes a claim; `v` is what W holds of it.
local function take(h,v)
  local _,_,_,granted,of,w=up(CLAIM,v)
  dirty=true
  put(h,false)
  if granted==1 then
    n,S=n-1,S-w
    if h==head then head=NONE end
    -- The smallest capacity may have gone with it. Only while sizes differ does that take a look at all.
    if n==0 then cap,top=MAX,0 elseif of==cap and cap<top then count() end
  elseif not out[h] and call('ZSCORE',Q,h) then
    leave(h)
    nq=nq-1
  end
end
local function add_tombstone(ms)
  tombstone_until=now+ms*1000
  if tombstone_until>tomb then tomb=tombstone_until end
  dirty=true
end
