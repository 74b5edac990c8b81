local mine,w,lease,wait=up('<I4I4dI4',A,18)
local tail,epoch=sub(A,18),up('<I2',A,51)
local opt,max=up('<BI4',ARGV[2])
opt=opt-48
spares=false
local function answer(kind,what)
  finish()
  return mark..kind..pk('<dd',now,what)
end
local function seen(kind)
  finish()
  return mark..kind..pk('<dddd',now,last,2*nq+n,touch)
end
local function queued(ahead)
  -- The answer tells it.
  if heir==id then heir=nil end
  return seen('q')..pk('<dI4',ahead==n and low-now or -1,ahead)
end
local function busy()
  local v,owner=n>0 and get(head),''
  -- One with a minimum hold is not the head.
  if not v and n==1 and nq<10 then
    for _,claim in pairs(all()) do
      if byte(claim,25)==1 then v=claim end
    end
  end
  if v then
    local from=70+byte(v,58)
    owner=sub(v,from,from+up('<I2',v,62)-1)
  end
  return seen('b')..pk('<d',n>0 and low-now or -1)..owner
end
local function join(granted,exp,to)
  last=now>last and now or last+1
  if n==0 and nq==0 then
    fresh=true
    if granted==1 then head=id end
  end
  put(id,pk('<dddB',last,exp,now,granted)..tail..to)
  if epoch>emax then emax=epoch end
  if lease/1000>long then
    long=lease/1000
    if long>86400000 then fresh=true end
  end
  dirty=true
end
local function grant(till,span)
  local exp=now+lease
  join(1,exp,'')
  n,S=n+1,S+w
  narrow(mine)
  if exp<low then low=exp end
  dirty=true
  if till and till>now then hold(id,get(id),till,span) end
  return answer('g',last)
end
settle()
if tomb>now then
  local till=call('ZSCORE',G,id)
  if till and till+0>now then return answer('x',0) end
end
local v=get(id)
if v then
  local tok,exp,_,granted,_,_,own,rest=up(CLAIM,v)
  local position=granted==0 and rank(id)
  if exp>now and (position or granted==1) then
    if byte(v,61)%16>=8 then return answer('x',0) end
    exp=now+(granted==1 and own or rest*1000)
    put(id,sub(v,1,8)..pk('<d',exp)..sub(v,17))
    if granted==1 then
      if n==1 or exp<low then low=exp end
      dirty=true
      return answer('g',tok)
    end
    if now-at>1000000 then dirty=true end
    if position>0 then
      settle(true)
      position=rank(id)
    end
    return queued(n+position)
  end
  take(id,v)
end
if opt%4>=2 then
  add_tombstone(math.max(lease/1000,60000))
  return answer('x',0)
end
if n>0 or nq>0 then
  if (cap==MAX)~=(mine==MAX) then return answer('c',0) end
  if epoch<emax then count() end
  if epoch<emax then return answer('e',emax) end
end
if opt>=8 then
  local old=n==1 and get(ARGV[3])
  if old and nq>0 then count() end
  if not old or nq>0 or byte(old,25)==0 or byte(old,61)%16>=8 then return busy() end
  take(ARGV[3],old)
  low=math.huge
  return grant(minimum(old))
end
if nq==0 and S+w<=math.min(cap,mine) then return grant() end
if opt%2==0 then return busy() end
if nq>=max and (swept+1000000<now or swept>now) then
  swept=now
  count()
end
if nq>=max then return answer('f',nq) end
if nq==0 then fresh=true end
join(0,now+wait*1000,sub(ARGV[2],6))
joined=last
nq=nq+1
return queued(n+nq-1)
