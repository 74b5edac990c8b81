  -- The rest of `renew`, which begins in renew_each.lua. It may take no memory: see `spares`.
  settle()
  local res,mark,v=-1,false,get(id)
  if v then
    local tok,exp,_,granted,_,_,life,wait,ml=up(CLAIM,v)
    local place=granted==0 and rank(id)
    if exp<=now or not (place or granted==1) then take(id,v)
    elseif byte(v,61)>=8 then
      -- Who broke it stands behind the other texts.
      local name,_,flags,owner,reason,value=up('<BI2BI2I2I4',v,58)
      res=sub(v,70+name+owner+reason+value+(flags%8>=4 and 16 or 0),49+ml)
    else
      exp=now+(granted==1 and life or wait*1000)
      put(id,sub(v,1,8)..pk('<d',exp)..sub(v,17))
      if granted==1 then
        res=tok
        if n==1 or exp<low then low=exp end
      else
        res=0
        if place>0 then settle(true) end
      end
      if at<now-now%3600000000 or at>now then dirty=true end
      mark=low==exp or now-at>1000000
    end
  end
  finish(mark)
  return res
end
