-- The beginning of each script of one node of a Fenced Redlock.
--
-- `lk:r:{name}` is a hash:
--   f         the last number that this node has assigned, to a claim of any client
--   l         the id of the claim that has this number, until the claim is withdrawn
--   h<id>     a holder on this node: <number><expires><granted><keep><exclusive> and its texts
--   b<id>     the break of that holder, a<id> a request to that holder to release the lock
--   n         the waiter that may claim next: <until><ticket><exclusive><waiter>
-- `lk:r:{name}:w` has the waiters by their tickets, `lk:r:{name}:g:<id>` is the tombstone of a
-- claim, and `lk:born` has the run of this server, since when its claims count, the servers of its
-- clients, and since when they are these, if they were others before.
-- Times are in ms by the clock of this server.
local call,byte,sub,floor_of=redis.call,string.byte,string.sub,math.floor
local HEAD,RECORD,RESERVATION='<ddddB',34,'<ddB'
-- So long a released lock waits for its next waiter.
local RESERVED=100
-- The counter stays for a day behind the last claim.
local DAY=86400000
local time=call('TIME')
local now_us=time[1]*1000000+time[2]
local now=floor_of(now_us/1000)

-- A value that lockkeeper has not written: the answer to the client.
local function foreign(key,what) return {'foreign',key,what} end

-- Reads lk:born; nothing if it is not there. The second result is the answer if the key is
-- something else.
local function read_born(key)
  local born=redis.pcall('GET',key)
  if not born then return end
  if born.err then return nil,foreign(key,call('TYPE',key).ok) end
  local run,since,members,joined=string.match(born,'^(%S+) (%d+) ?(%S*) ?(%d*)$')
  if not run then return nil,foreign(key,'string') end
  return {run=run,since=tonumber(since),members=members,joined=tonumber(joined)}
end
-- Whether the claims of this run count: none of an earlier run can be held any more.
local function counts(born,run,max_keep)
  return born and born.run==run and (born.since==0 or born.since+max_keep<=now)
end
local function write_born(key,run,since,members,joined)
  local last=joined and string.format(' %.0f',joined) or ''
  call('SET',key,string.format('%s %.0f %s',run,since,members)..last)
end

-- Reads a line. The second result is the answer if the key is no line.
local function read_line(key)
  local fields=redis.pcall('HGETALL',key)
  if fields.err then
    if string.find(fields.err,'WRONGTYPE',1,true) then
      return nil,foreign(key,call('TYPE',key).ok)
    end
    return nil,fields
  end
  local line={key=key,fence=0,holders={},notes={},dead={}}
  for i=1,#fields,2 do
    local field,value=fields[i],fields[i+1]
    if field=='f' then line.fence=tonumber(value)
    elseif field=='l' then line.last=value
    elseif field=='n' and #value>17 then
      local expires,ticket,exclusive=struct.unpack(RESERVATION,value)
      if expires>now and expires<=now+RESERVED then
        line.next={expires=expires,ticket=ticket,exclusive=exclusive==1,waiter=sub(value,18)}
      end
    else
      local kind,id=sub(field,1,1),sub(field,2)
      if kind=='h' and #id==16 and #value>=RECORD-1 then
        local token,expires,granted,keep,exclusive=struct.unpack(HEAD,value)
        local holder={token=token,expires=expires,granted=granted,keep=keep,exclusive=exclusive==1,
          texts=sub(value,RECORD)}
        -- The clock of the server has gone back: the claim begins its life again, once.
        if expires>now+keep then holder.expires,holder.moved=now+keep,true end
        if holder.expires>now then line.holders[id]=holder else line.dead[#line.dead+1]=id end
      elseif not ((kind=='b' or kind=='a') and #id==16) then
        return nil,foreign(key,'hash')
      else line.notes[field]=value end
    end
  end
  if not line.fence then return nil,foreign(key,'hash') end
  return line
end

local function packed(holder)
  return struct.pack(HEAD,holder.token,holder.expires,holder.granted,holder.keep,
    holder.exclusive and 1 or 0)..holder.texts
end

-- Keeps the new lives of holders after the clock has gone back. A full server refuses HSET, unless
-- the script has written before.
local function keep_moved(line)
  for id,holder in pairs(line.holders) do
    if holder.moved then
      call('HDEL',line.key,'-')
      call('HSET',line.key,'h'..id,packed(holder))
    end
  end
end

-- The epoch in the texts of a claim.
local function epoch_of(texts) return (byte(texts,1) or 0)+256*(byte(texts,2) or 0) end

-- A holder that keeps a claim out, one of the highest epoch, and the time at which all such holders
-- have expired. A higher epoch keeps out every claim of this one.
local function conflict(line,exclusive,own,replaces,epoch)
  local first,expires,highest
  for id,holder in pairs(line.holders) do
    local its=epoch_of(holder.texts)
    if id~=own and id~=replaces and (exclusive or holder.exclusive or epoch and its>epoch) then
      if not first or its>highest then first,highest=holder,its end
      expires=math.max(expires or 0,holder.expires)
    end
  end
  return first,expires
end
