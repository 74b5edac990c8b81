  -- The rest of renew() in RENEW_OPEN: RENEW of one claim while the slot moves. KEYS: that of the line, or that of the line
  -- and that of its claims, which is here `queue_key`, the second. If these cannot decide, RENEW_OPEN answers nothing, and the
  -- client sends more keys.
  --
  -- It removes and grants nothing: in an open slot a script fails half-way at a key that has moved. So it is safe without
  -- the queue and the tombstones, and a claim that died is found by the next whole script.
  if byte(stored,FORM)==ALONE then return -1 end
  local claim=queue_key and call('HGET',queue_key,id)
  -- RENEW tells who broke a claim.
  if not queue_key or claim and byte(claim,FLAGS)%(2*BROKEN)>=BROKEN then
    needs_all_keys=true
    return -1
  end
  if not claim or decode('<d',claim,EXPIRES)<=now then return -1 end
  local token,_,_,granted,_,_,lease,wait=decode('<dddBI4I4dI4',claim)
  local last_token,next_expiry,_,written_at,_,holders,_,_,_,_,_,_,longest_life=decode('<ddc1dI4I4dc4c16dddd',stored)
  local expires=now+(granted==1 and lease or wait*1000)
  if granted==1 and (holders==1 or expires<next_expiry) then next_expiry=expires end
  -- Before the claim is renewed: what the server may refuse is tried, or done where nobody can see it.
  even_if_full(line_key,'SETRANGE',line_key,'8','')
  if written_at<now-now%HOUR then
    local ttl_ms=string.format('%.0f',math.max(TWO_DAYS_MS,longest_life+DAY_MS,(last_token-now)/1000+TWO_DAYS_MS))
    call('PEXPIRE',line_key,ttl_ms)
    call('PEXPIRE',queue_key,ttl_ms)
  end
  call('HSET',queue_key,id,sub(claim,1,EXPIRES-1)..encode('<d',expires)..sub(claim,SINCE))
  -- `written_at` does not fall here: the next whole script has to see that the clock went back, and to recount.
  call('SETRANGE',line_key,'8',encode('<dc1d',next_expiry,'\32',written_at>now and written_at or now))
  return granted==0 and 0 or held(claim,token,lease)
end

