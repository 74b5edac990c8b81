  -- The rest of renew(). RENEW extends a live claim, and never creates or revives one: an expired
  -- claim is removed instead. It needs no memory (needs_no_memory), so that locks live on on a full
  -- server.
  grant_waiters()
  local answer,touches_header,claim=-1,false,claim_of(id)
  if claim then
    local token,expires,_,granted,_,_,lease,wait=decode(CLAIM_FORMAT,claim)
    local position=granted==0 and waiters_ahead(id)
    -- Dead inside the queue, or without a place there.
    if expires<=now or not (position or granted==1) then remove_claim(id,claim)
    -- Marked by EVICT: not extended, so it ends with its life.
    elseif byte(claim,FLAGS)%(2*BROKEN)>=BROKEN then
      answer=words_of(claim)
    else
      expires=now+(granted==1 and lease or wait*1000)
      set_claim(id,sub(claim,1,EXPIRES-1)..encode('<d',expires)..sub(claim,SINCE))
      if granted==1 then
        answer=held(claim,token,lease)
        if holders==1 or expires<next_expiry then next_expiry=expires end
      else
        answer=0
        if position>0 then grant_waiters(true) end
      end
      -- Once in each hour, and after the clock went back, the whole header is written, so that the
      -- keys stay.
      if written_at<now-now%HOUR or written_at>now then header_changed=true end
      -- Keeps `next_expiry` and `written_at` true: see recount_if_due().
      touches_header=next_expiry==expires or now-written_at>SECOND
    end
  end
  write_changes(touches_header)
  return answer
end

-- Renews the nth claim. The short way: it is alone and alive, so only `expires` is written, in
-- place. SETRANGE counts from 0. The id is compared, so nobody else's claim is extended; ALONE is
-- never marked, requested or kept.
local function renew_nth(nth)
  local last_key,id=4*nth,ARGV[nth]
  local line_key=KEYS[last_key-3]
  local stored=read_line(line_key)
  if not stored or #stored==FREE_LENGTH then return -1 end
  local last_token,expires=decode('<d',stored),form_of(stored)==ALONE and decode('<d',stored,EXPIRES)
  if not expires or expires<=now or sub(stored,FORM,33)~=id then
    return renew(line_key,KEYS[last_key-2],KEYS[last_key-1],KEYS[last_key],sub(id,2),stored)
  end
  local lease=decode('<d',stored,LIFE+ALONE_SHIFT)
  -- The last renewal was in another hour: the key is to stay. This comes first, since nobody can
  -- see it if the rest fails.
  if expires-lease<now-now%HOUR then
    call('PEXPIRE',line_key,string.format('%.0f',math.max(TWO_DAYS_MS,lease/1000+DAY_MS,(last_token-now)/1000+TWO_DAYS_MS)))
  end
  even_if_full(KEYS[last_key-2],'SETRANGE',line_key,'8',encode('<d',now+lease))
  return {last_token,lease-1000*decode('<I4',stored,DELAY+ALONE_SHIFT)}
end

for nth=1,#ARGV do answers[nth]=isolated(renew_nth,nth) end
answers[#ARGV+1]=sub(ARGV[1],2,9)..encode('<d',now)
return answers
