-- AMEND. ARGV: id | the number of the change d | a letter, and the change: l weight I4, v value, m
-- what is shown from the epoch on (layout/meta.rs), h minimum hold d. Answers 1; 0: not live; or
-- the first 8 bytes of the id | the number of the last change d, if that is higher.
--
-- It never raises a weight, so it cannot break exclusion. What a lowered weight frees goes to the
-- next waiters.
grant_waiters()
local kind,change,claim=sub(ARGV[3],1,1),sub(ARGV[3],2),claim_of(argument)
local granted=claim and byte(claim,GRANTED)==1
needs_no_memory=false
-- Only a holder has a weight to lower, or a minimum hold. A marked claim gets no minimum hold:
-- EVICT has ended it.
if not claim or decode('<d',claim,EXPIRES)<=now or ((kind=='l' or kind=='h') and not granted)
  or kind=='h' and byte(claim,FLAGS)%(2*BROKEN)>=BROKEN then
  write_changes()
  return 0
end

-- `shown` is what the claim shows, so its offsets are those of the record less SHOWN-1.
local length,number=decode('<I4',claim,LENGTH),decode('<d',ARGV[2])
local shown=sub(claim,SHOWN,SHOWN-1+length)
local name_len,_,flags,owner_len,reason_len,value_len=decode('<BI2BI2I2I4',shown,NAME_LEN-SHOWN+1)
-- `high_flags`: BROKEN and above stay as they are.
local owner_at,high_flags=TEXTS-SHOWN+1+name_len,flags-flags%BROKEN
-- Behind the texts: the number of the last change, and the words.
local value_at=owner_at+owner_len+reason_len
local words=sub(shown,value_at+value_len)
if flags%(2*AMENDED)>=AMENDED then
  -- Replay: a change that is not above the last one, whichever client sends it, changes nothing.
  local last=decode('<d',words)
  if number<=last then
    write_changes()
    return number==last and 1 or sub(argument,1,8)..sub(words,1,8)
  end
  words=sub(words,CHANGE_LENGTH+1)
end
words=ARGV[2]..words
if kind=='v' then
  -- client, delay, name_len, epoch | flags | owner_len, reason_len | value_len | name, owner,
  -- reason | value | number | words
  shown=sub(shown,1,FLAGS-SHOWN)..string.char(flags%VALUE+(VALUE+AMENDED)+high_flags)
    ..sub(shown,OWNER_LEN-SHOWN+1,VALUE_LEN-SHOWN)..encode('<I4',#change)
    ..sub(shown,TEXTS-SHOWN+1,value_at-1)..change..words
elseif kind=='m' then
  -- `change`: epoch, flags, owner_len, reason_len, value_len (11 bytes), then owner, reason, value.
  max_epoch=math.max(max_epoch,(decode('<I2',change)))
  shown=sub(shown,1,EPOCH-SHOWN)..sub(change,1,2)..string.char(byte(change,3)+AMENDED+high_flags)..sub(change,4,11)
    ..sub(shown,TEXTS-SHOWN+1,owner_at-1)..sub(change,12)..words
else
  shown=sub(shown,1,FLAGS-SHOWN)..string.char(flags%AMENDED+AMENDED+high_flags)
    ..sub(shown,FLAGS-SHOWN+2,value_at+value_len-1)..words
end
claim=sub(claim,1,LENGTH-1)..encode('<I4',#shown)..shown..sub(claim,SHOWN+length)

if kind=='l' then
  local weight=decode('<I4',claim,WEIGHT)
  local lowered=math.min(weight,(decode('<I4',change)))
  weight_held=weight_held-weight+lowered
  claim=sub(claim,1,WEIGHT-1)..encode('<I4',lowered)..sub(claim,LIFE)
end
set_claim(argument,claim)
if kind=='h' then
  -- Of two minimum holds the one that ends later counts.
  local till,span=min_hold_of(claim),decode('<d',change)
  if now+span>till then set_min_hold(argument,claim,now+span,span) end
end
touched,header_changed=touched+1,true
grant_waiters()
write_changes()
return 1
