-- CLAIM: makes, raises, confirms and renews a claim on one node.
-- KEYS: line, tombstone, lk:born, waiters.
-- ARGV: id, run of this server, max-keep, floor, keep, exclusive, the claim that this one replaces,
-- waiter, texts, whether the claim is to be here already, the number of the claim to replace, the
-- servers of this client.
local id,run,max_keep=ARGV[1],ARGV[2],tonumber(ARGV[3])
local floor,keep,exclusive,replaces=tonumber(ARGV[4]),tonumber(ARGV[5]),ARGV[6]=='1',ARGV[7]
local waiter,texts,only_here=ARGV[8],ARGV[9],ARGV[10]=='1'
local mark=sub(id,1,8)

-- Since when the claims of this node count: a server that was started again may have forgotten the
-- claims of before. Majorities of clients with other servers may have no server in common with
-- those of this client.
local born,wrong=read_born(KEYS[3])
if wrong then return wrong end
local members=born and born.members or ''
if members~='' and members~=ARGV[12] then return {mark,'members',members} end
local since=born and born.run==run and born.since
if not since or since>now or members=='' then
  if not since or since>now then since=now end
  write_born(KEYS[3],run,since,ARGV[12],born and born.joined)
end
if since>0 and since+max_keep>now then return {mark,'forgot',since+max_keep-now} end
local gone=redis.pcall('GET',KEYS[2])
if gone then
  if type(gone)=='string' and gone~='' then return {mark,'broken',gone,'1'} end
  return {mark,'gone'}
end
local line
line,wrong=read_line(KEYS[1])
if wrong then return wrong end
keep_moved(line)
local broken=line.notes['b'..id]
if broken then return {mark,'broken',broken} end

local held=line.holders[id]
if not held then
  if only_here then return {mark,'absent'} end
  local other,expires=conflict(line,exclusive,id,replaces,epoch_of(texts))
  -- A claim is replaced only if it has had the lock all the time, and is not broken.
  local old=line.holders[replaces]
  if replaces~='' and (not old or old.token~=tonumber(ARGV[11]) or line.notes['b'..replaces]) then
    other=other or old or {expires=now,texts=''}
    expires=expires or other.expires
  end
  if other then return {mark,'busy',expires-now,now_us,other.texts} end
  -- A waiter's right to claim next is a hint. It keeps no claim out that has its number elsewhere:
  -- a holder takes a node again that has lost its claim.
  local first=floor==0 and line.next
  if first and first.waiter~=waiter and replaces=='' and (first.exclusive or exclusive) then
    return {mark,'busy',first.expires-now,now_us,''}
  end
end

local token=line.fence
if held and held.token>=floor then token=held.token
elseif line.last~=id or line.fence<floor then
  token=math.max(line.fence+1,floor)
  -- The clock keeps a number from coming back when a counter was lost. It is rounded, so that equal
  -- nodes give equal numbers. A floor that is younger than the memory of this node needs no clock.
  if floor<=(since+max_keep)*1000 then token=math.max(token,now_us-now_us%1048576) end
  line.fence,line.last=token,id
end
if texts=='' and held then texts=held.texts end
held={token=token,expires=now+keep,granted=held and held.granted or now,keep=keep,
  exclusive=exclusive,texts=texts}
line.holders[id]=held
-- A full server refuses HSET, unless the script has written before.
if only_here then call('HDEL',line.key,'-') end
call('HSET',line.key,'h'..id,packed(held),'f',line.fence,'l',line.last or '')
for _,dead in ipairs(line.dead) do
  if dead~=id then call('HDEL',line.key,'h'..dead,'b'..dead,'a'..dead) end
end
if waiter~='' then
  -- An error behind HSET would hide that the claim is here.
  redis.pcall('ZREM',KEYS[4],waiter)
  if line.next and line.next.waiter==waiter then call('HDEL',line.key,'n') end
end
local life=math.max(line.fence/1000-now,0)
for _,holder in pairs(line.holders) do life=math.max(life,holder.expires-now) end
call('PEXPIRE',line.key,math.ceil(life)+DAY)
return {mark,'held',token,line.notes['a'..id] or ''}
