-- AMEND. ARGV: 4 the number of the change, 5 its kind: `l` with 6 the weight, `v` with 6 the value,
-- `m` with 6 the epoch, 7 the text of the owner, 8 the reason and 9 the value. Answers the owner,
-- and 1 if it is done, 0 if the claim is not there, or 2 and the number of a later change.
local record=record_of(owner)
local number,kind=tonumber(ARGV[4]),ARGV[5]
if not record or not stands(owner) and (kind=='l' or not waits(record)) then return {owner,0} end
if number==record[CHANGE] then return {owner,1} end
if number<record[CHANGE] then return {owner,2,record[CHANGE]} end
if kind=='l' then
  local weight=tonumber(ARGV[6])
  if weight<record[WEIGHT] then
    lower(owner,record,weight)
    record[WEIGHT]=weight
  end
elseif kind=='v' then
  record[VALUE]=ARGV[6]
else
  record[EPOCH],record[SHOWN]=tonumber(ARGV[6]),ARGV[7]
  record[REASON],record[VALUE]=optional(ARGV[8]),optional(ARGV[9])
  raise_epoch(record[EPOCH])
end
record[CHANGE]=number
write(owner,record)
wake()
return {owner,1}
