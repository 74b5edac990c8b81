  -- The rest of `renew`, which begins in renew_each.lua. It may take no memory: see `spares`.
  settle()
  local res,mark,v=-1,false,get(id)
  if v then
    local tok,exp,_,granted,_,_,lease,wait=up(CLAIM,v)
    local position=granted==0 and rank(id)
    if exp<=now or not (position or granted==1) then take(id,v)
    elseif byte(v,61)%16>=8 then
      -- Who broke it stands behind the other texts.
      res=words(v)
    else
      exp=now+(granted==1 and lease or wait*1000)
      put(id,sub(v,1,8)..pk('<d',exp)..sub(v,17))
      if granted==1 then
        res=byte(v,61)%32>=16 and {tok,words(v)} or tok
        if n==1 or exp<low then low=exp end
      else
        res=0
        if position>0 then settle(true) end
      end
      if at<now-now%3600000000 or at>now then dirty=true end
      mark=low==exp or now-at>1000000
    end
  end
  finish(mark)
  return res
end
