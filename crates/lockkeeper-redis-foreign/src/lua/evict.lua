-- EVICT, and the request to release. ARGV: 4 `m` to mark, `n` to remove now, `a` to ask; 5 who, 6
-- why. Answers the owner, and 1 if it is done, 0 if the claim is not there, 2 if its holder is no
-- client of lockkeeper and cannot be marked or asked.
local how,record=ARGV[4],record_of(owner)
-- A reader of Redisson that has entered several times is there although its first entry has ended.
if record and not stands(owner) and not waits(record) or not is_known(owner) then return {owner,0} end
if how=='n' then
  drop(owner)
  if record then
    record[BREAKER],record[WHY],record[REMOVED],record[SINCE]=ARGV[5],ARGV[6],true,micros()
    write(owner,record)
  end
  wake()
  return {owner,1}
end
if not record then return {owner,2} end
if how=='m' then
  if not record[BREAKER] then record[BREAKER],record[WHY]=ARGV[5],ARGV[6] end
elseif record[BREAKER] then
  return {owner,1}
else
  record[ASKER],record[ASKED]=ARGV[5],ARGV[6]
end
write(owner,record)
wake()
return {owner,1}
