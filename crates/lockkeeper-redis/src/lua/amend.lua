-- AMEND. ARGV: id | client, and number of the change | a letter, and the change: l weight I4, v value, m what is shown from the
-- epoch on (layout/meta.rs), h minimum hold d. Answers 1, or 0: not live.
--
-- It never raises a weight, so it cannot break exclusion. What a lowered weight frees goes to the next waiters.
grant_waiters()
local kind,change,claim=sub(ARGV[3],1,1),sub(ARGV[3],2),claim_of(argument)
local granted=claim and byte(claim,GRANTED)==1
needs_no_memory=false
-- Only a holder has a weight to lower, or a minimum hold. A marked claim gets no minimum hold: EVICT has ended it.
if not claim or decode('<d',claim,EXPIRES)<=now or ((kind=='l' or kind=='h') and not granted)
  or kind=='h' and byte(claim,FLAGS)%(2*BROKEN)>=BROKEN then
  write_changes()
  return 0
end

-- Returns what the claim shows from now on. `shown` is what it shows now, so its offsets are those of the record less
-- SHOWN-1. Replay: a change that the same client numbered lower, or the same, than its last change leaves `shown` as it is.
local function amended(shown)
  local name_len,_,flags,owner_len,reason_len,value_len=decode('<BI2BI2I2I4',shown,NAME_LEN-SHOWN+1)
  -- `high_flags`: BROKEN and above stay as they are.
  local owner_at,high_flags=TEXTS-SHOWN+1+name_len,flags-flags%BROKEN
  -- Behind the texts: the last change, and the words.
  local words=sub(shown,owner_at+owner_len+reason_len+value_len)
  if flags%(2*AMENDED)>=AMENDED then
    if sub(words,1,8)==sub(ARGV[2],1,8) and decode('<d',words,9)>=decode('<d',ARGV[2],9) then return shown end
    words=sub(words,CHANGE_LENGTH+1)
  end
  if kind=='v' then
    -- client, name_len, epoch | flags | owner_len, reason_len | value_len | name, owner, reason | value | change | words
    return sub(shown,1,FLAGS-SHOWN)..string.char(flags%VALUE+(VALUE+AMENDED)+high_flags)
      ..sub(shown,OWNER_LEN-SHOWN+1,VALUE_LEN-SHOWN)..encode('<I4',#change)
      ..sub(shown,TEXTS-SHOWN+1,owner_at+owner_len+reason_len-1)..change..ARGV[2]..words
  end
  -- `change`: epoch, flags, owner_len, reason_len, value_len (11 bytes), then owner, reason, value.
  max_epoch=math.max(max_epoch,(decode('<I2',change)))
  return sub(shown,1,EPOCH-SHOWN)..sub(change,1,2)..string.char(byte(change,3)+AMENDED+high_flags)..sub(change,4,11)
    ..sub(shown,TEXTS-SHOWN+1,owner_at-1)..sub(change,12)..ARGV[2]..words
end

if kind=='l' then
  local weight=decode('<I4',claim,WEIGHT)
  local lowered=math.min(weight,(decode('<I4',change)))
  weight_held=weight_held-weight+lowered
  set_claim(argument,sub(claim,1,WEIGHT-1)..encode('<I4',lowered)..sub(claim,LIFE))
elseif kind=='h' then
  -- Of two minimum holds the one that ends later counts.
  local till,span=min_hold_of(claim),decode('<d',change)
  if now+span>till then set_min_hold(argument,claim,now+span,span) end
else
  local length=decode('<I4',claim,LENGTH)
  local shown=amended(sub(claim,SHOWN,SHOWN-1+length))
  set_claim(argument,sub(claim,1,LENGTH-1)..encode('<I4',#shown)..shown..sub(claim,SHOWN+length))
end
touched,header_changed=touched+1,true
grant_waiters()
write_changes()
return 1
