-- THE WRITING END of each script that has read a line with line.lua. Nothing is written before it.
--
-- A server that refuses a command must have refused it before the first change: a right, a command
-- or memory may be missing, a key may be of another type or at another node. So write_changes()
-- first runs each command in a form that changes nothing ("try"), and then for good ("write"). HSET
-- has no such form, so it comes first of the writes.

-- Whether the change must succeed on a full server: renewals, releases and looks. Scripts that add
-- something set it to false.
local needs_no_memory=true

-- How long the keys stay without another request, in ms: for a day more than the longest life; for
-- as long as tombstones stand; and for two days more than a last token is ahead of the clock. If
-- the key went sooner, a clock that catches up would give old tokens again.
local function stay_ms()
  return string.format('%.0f',
    math.max(TWO_DAYS_MS,longest_life+DAY_MS,(math.max(last_token,tombstones_until)-now)/1000+TWO_DAYS_MS))
end

-- Writes everything that the script has decided, or fails and has changed nothing. Sends the
-- messages afterwards. With `touches_header`, `next_expiry` and the time are written where nothing
-- else of the header changes.
local function write_changes(touches_header)
  if not header_changed and not next(changed) then return end
  -- No message comes when a minimum hold ends: the first waiter looks at that time. A waiter that
  -- has become the first one, or whose holder has become a kept claim, does not know the time yet,
  -- so it is NOTIFIED to look ('a').
  if may_keep and first_waiter and changed[first_waiter]~=false and (keeps_since_now or leaving_ids[1]) then
    notify(wake_up[1],wake_up[2])
  end
  -- ALONE becomes SHARED by any change that comes here: an amendment, a renewal that is not the
  -- short one.
  local writes_header,header,ttl_ms=header_changed or not is_shared,nil,nil
  local set_fields,removed_fields={},{}
  if writes_header then
    if tombstones_until<=now then tombstones_until=0 end
    if observed_until<=now then observed_until,observer_kinds=0,0 end
    if observed_until_before>now
      and (last_token~=last_token_before or 2*waiters+holders~=left_before or touched~=touched_before) then
      local channel,message='lk:w:'..sub(line_key,4),'c'..sub(line_key,5,-2)
      if observer_kinds_before%OBSERVED_SHARDED==OBSERVED_PLAIN then notify('p'..channel,message) end
      if observer_kinds_before>=OBSERVED_SHARDED then notify('s'..channel,message) end
    end
    -- The last claim has left. A key that stays longer than usual for the sake of its long life
    -- need not any more.
    local shortens=holders==0 and waiters==0 and longest_life>DAY_MS
    if holders==0 and waiters==0 then
      weight_held,next_expiry,first_holder,max_epoch,longest_life,min_capacity,max_capacity,may_keep=
        0,math.huge,NO_ID,0,0,MAX,0,false
    end
    if holders==0 and waiters==0 and tombstones_until==0 and observed_until==0 then
      -- FREE. This one write decides; the side keys are leftovers from then on, so they may fail to
      -- go.
      header=encode('<d',last_token)
      local set_free=shortens and {'SET',line_key,header,'PX',stay_ms()} or {'SET',line_key,header,'KEEPTTL'}
      if needs_no_memory then even_if_full(queue_key,unpack(set_free)) elseif stored then call(unpack(set_free)) end
      if is_shared then redis.pcall('DEL',queue_key,claims_key) end
    else
      -- SHARED: the fields in the order of record.lua.
      header=encode('<ddc1dI4I4dI4c16ddddI4I2BI4',
        last_token,next_expiry,'\32',now,waiters,holders,weight_held,min_capacity,first_holder,tombstones_until,
        observed_until,swept_at,longest_life,touched,max_epoch,observer_kinds+(may_keep and MAY_KEEP or 0),max_capacity)
      -- A claim must not outlive its keys. They get a day more than the longest life when a line
      -- begins or a longer life comes, and once in each hour.
      if prolongs or shortens or not is_shared or written_at<now-now%HOUR or written_at>now then ttl_ms=stay_ms() end
      if alone_id and changed[alone_id]==nil then changed[alone_id]=alone_claim end
    end
  end
  if not header or #header>FREE_LENGTH then
    for claim_id,claim in pairs(changed) do
      if claim then set_fields[#set_fields+1],set_fields[#set_fields+2]=claim_id,claim
      elseif is_shared then removed_fields[#removed_fields+1]=claim_id end
    end
    -- TRY. `SET … NX` of a key that exists, and `SET … XX` of one that does not, set nothing; an
    -- empty member or field does not exist; `ZREMRANGEBYSCORE 1 0` is an empty range. The expiry
    -- times of the side keys may as well be set twice.
    local try=needs_no_memory and even_if_full or if_not_full
    if header then try(queue_key,'SET',line_key,'',stored and 'NX' or 'XX')
    elseif touches_header then try(queue_key,'SETRANGE',line_key,'8','')
    elseif needs_no_memory then call('ZREM',queue_key,'') end
    if joined_token then call('ZADD',queue_key,'XX','0','') end
    if leaving_ids[1] then call('ZREM',queue_key,'') end
    if removed_fields[1] then call('HDEL',claims_key,'') end
    if tombstone_until then
      call('ZADD',tombstones_key,'XX','0','')
      call('ZREMRANGEBYSCORE',tombstones_key,'1','0')
      call('PEXPIREAT',tombstones_key,math.ceil(tombstones_until/1000)+1000)
    end
    if ttl_ms then
      call('PEXPIRE',claims_key,ttl_ms)
      if waiters>0 then call('PEXPIRE',queue_key,ttl_ms) end
    end
    -- Leftovers: the line begins here, so they belong to a line that is free, or whose key somebody
    -- has deleted.
    if not is_shared then call('DEL',queue_key,claims_key) end
    -- WRITE. While a slot moves, a key that vanishes cannot be made again: so what joins a key
    -- comes before what leaves it.
    if set_fields[1] then call('HSET',claims_key,set_fields[1],set_fields[2]) end
    if set_fields[3] then in_batches('HSET',claims_key,set_fields,3) end
    if removed_fields[1] then in_batches('HDEL',claims_key,removed_fields,1) end
    if joined_token then
      must('ZADD',queue_key,string.format('%.0f',joined_token),id)
      -- The same id may have left the queue in this script, and joined it again.
      for i=#leaving_ids,1,-1 do
        if leaving_ids[i]==id then table.remove(leaving_ids,i) end
      end
    end
    if leaving_ids[1] then in_batches('ZREM',queue_key,leaving_ids,1) end
    if tombstone_until then
      -- GT: a late copy of a withdrawal makes no tombstone shorter.
      must('ZADD',tombstones_key,'GT',tombstone_until,id)
      must('ZREMRANGEBYSCORE',tombstones_key,'-inf',now)
      must('PEXPIREAT',tombstones_key,math.ceil(tombstones_until/1000)+1000)
    end
    if ttl_ms then
      must('SET',line_key,header,'PX',ttl_ms)
      if set_fields[1] then must('PEXPIRE',claims_key,ttl_ms) end
      if set_fields[1] and waiters>0 then must('PEXPIRE',queue_key,ttl_ms) end
    elseif header then must('SET',line_key,header,'KEEPTTL')
    elseif touches_header then must('SETRANGE',line_key,'8',encode('<dc1d',next_expiry,'\32',now)) end
  end
  -- A message that the server refuses costs time only: its receiver learns the same from a renewal
  -- or a look.
  for i=1,#messages do redis.pcall(messages[i][1],messages[i][2],messages[i][3]) end
end

