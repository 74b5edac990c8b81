-- The end of a script that has read a line: all that it changes is written here, after everything that a server may
-- refuse was tried in a form that changes nothing: a right, a command or memory that is missing, a key of another kind,
-- or one that is at another node. HSET has no such form, so it comes first of what counts.
-- With `mark` `low` and the time are written, too, where nothing else of K is.
local spares=true
-- For how long K stays, in ms, if nobody comes: a day more than the longest life; as long as its tombstones stand; and as
-- long as a last token is ahead of the clock, else a clock that goes on would bring old tokens back.
local function stay()
  return string.format('%.0f',math.max(172800000,long+86400000,(math.max(last,tomb)-now)/1000+172800000))
end
local function finish(mark)
  if not dirty and not next(changed) then return end
  -- The end of what is kept is the only end of which nobody tells: the first waiter looks when it comes. A waiter that has
  -- become the first, or that knows of a lease only, is told to look anew.
  if keeps and heir and changed[heir]~=false and (keeps_more or outs[1]) then push(word[1],word[2]) end
  -- An amendment or a renewal of one that is alone makes it a line.
  local whole,value,px=dirty or not shared,nil,nil
  local puts,dels={},{}
  if whole then
    if tomb<=now then tomb=0 end
    if obs<=now then obs,kinds=0,0 end
    if obs0>now and (last~=last0 or 2*nq+n~=left0 or touch~=touch0) then
      local to,what='lk:w:'..sub(K,4),'c'..sub(K,5,-2)
      if kinds0%2==1 then push('p'..to,what) end
      if kinds0>=2 then push('s'..to,what) end
    end
    -- The last one has left. What stays for longer than usual for its sake need not any more.
    local shortens=n==0 and nq==0 and long>86400000
    if n==0 and nq==0 then S,low,head,emax,long,cap,top,keeps=0,math.huge,NONE,0,0,MAX,0,false end
    if n==0 and nq==0 and tomb==0 and obs==0 then
      -- One write decides. What is left of the line means nothing any more.
      value=pk('<d',last)
      local free=shortens and {'SET',K,value,'PX',stay()} or {'SET',K,value,'KEEPTTL'}
      if spares then spare(Q,unpack(free)) elseif r then call(unpack(free)) end
      if shared then redis.pcall('DEL',Q,W) end
    else
      value=pk('<ddc1dI4I4dI4c16ddddI4I2BI4',
        last,low,'\16',now,nq,n,S,cap,head,tomb,obs,swept,long,touch,emax,kinds+(keeps and 4 or 0),top)
      -- Nothing outlives its key: each hour they all get a day more than the longest life.
      if fresh or shortens or not shared or at<now-now%3600000000 or at>now then px=stay() end
      if alone and changed[alone]==nil then changed[alone]=rec end
    end
  end
  if not value or #value>8 then
    for h,v in pairs(changed) do
      if v then puts[#puts+1],puts[#puts+2]=h,v elseif shared then dels[#dels+1]=h end
    end
    -- Tried.
    local first=spares and spare or skipped
    if value then first(Q,'SET',K,'',r and 'NX' or 'XX') elseif mark then first(Q,'SETRANGE',K,'8','')
    elseif spares then call('ZREM',Q,'') end
    if joined then call('ZADD',Q,'XX','0','') end
    if outs[1] then call('ZREM',Q,'') end
    if dels[1] then call('HDEL',W,'') end
    if tombstone_until then
      call('ZADD',G,'XX','0','')
      call('ZREMRANGEBYSCORE',G,'1','0')
      call('PEXPIREAT',G,math.ceil(tomb/1000)+1000)
    end
    if px then
      call('PEXPIRE',W,px)
      if nq>0 then call('PEXPIRE',Q,px) end
    end
    -- What Q and W may still hold is of a line that somebody has deleted.
    if not shared then call('DEL',Q,W) end
    -- Done. A key that vanishes could not be made again in a slot on its way: what joins comes before what leaves.
    if puts[1] then call('HSET',W,puts[1],puts[2]) end
    if puts[3] then each('HSET',W,puts,3) end
    if dels[1] then each('HDEL',W,dels,1) end
    if joined then
      must('ZADD',Q,string.format('%.0f',joined),id)
      for i=#outs,1,-1 do
        if outs[i]==id then table.remove(outs,i) end
      end
    end
    if outs[1] then each('ZREM',Q,outs,1) end
    if tombstone_until then
      must('ZADD',G,'GT',tombstone_until,id)
      must('ZREMRANGEBYSCORE',G,'-inf',now)
      must('PEXPIREAT',G,math.ceil(tomb/1000)+1000)
    end
    if px then
      must('SET',K,value,'PX',px)
      if puts[1] then must('PEXPIRE',W,px) end
      if puts[1] and nq>0 then must('PEXPIRE',Q,px) end
    elseif value then must('SET',K,value,'KEEPTTL')
    elseif mark then must('SETRANGE',K,'8',pk('<dc1d',low,'\16',now)) end
  end
  -- A push that is refused costs time only: its receiver hears of it by a renewal or a look.
  for i=1,#pushes do redis.pcall(pushes[i][1],pushes[i][2],pushes[i][3]) end
end
