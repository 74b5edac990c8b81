  -- The rest of `renew` while the slot is on its way: Q is here the claims of the line, or nothing. Nothing is removed or
  -- granted, so that all of it can be done where these two are: what is missing would be asked for in vain.
  if byte(r,17)==17 then return -1 end
  local v=Q and call('HGET',Q,id)
  -- Who broke it is told by the whole of it.
  if not Q or v and byte(v,61)%16>=8 then
    elsewhere=true
    return -1
  end
  if not v or up('<d',v,9)<=now then return -1 end
  local tok,_,_,granted,_,_,lease,wait=up('<dddBI4I4dI4',v)
  local last,low,_,at,_,n,_,_,_,_,_,_,long=up('<ddc1dI4I4dc4c16dddd',r)
  local exp=now+(granted==1 and lease or wait*1000)
  if granted==1 and (n==1 or exp<low) then low=exp end
  -- What may be refused is tried, or done where nobody could see it, before the claim is renewed.
  spare(K,'SETRANGE',K,'8','')
  if at<now-now%3600000000 then
    local px=string.format('%.0f',math.max(172800000,long+86400000,(last-now)/1000+172800000))
    call('PEXPIRE',K,px)
    call('PEXPIRE',Q,px)
  end
  call('HSET',Q,id,sub(v,1,8)..pk('<d',exp)..sub(v,17))
  -- A clock that went back is still to be seen.
  call('SETRANGE',K,'8',pk('<dc1d',low,'\16',at>now and at or now))
  return granted==0 and 0 or byte(v,61)%32>=16 and {tok,words(v)} or tok
end
