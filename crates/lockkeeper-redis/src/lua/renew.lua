  -- The rest of renew(). RENEW extends a live claim, and never creates or revives one: an expired claim is removed instead.
  -- It needs no memory (needs_no_memory), so that locks live on on a full server.
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
      -- Once in each hour, and after the clock went back, the whole header is written, so that the keys stay.
      if written_at<now-now%HOUR or written_at>now then header_changed=true end
      -- Keeps `next_expiry` and `written_at` true: see recount_if_due().
      touches_header=next_expiry==expires or now-written_at>SECOND
    end
  end
  write_changes(touches_header)
  return answer
end

