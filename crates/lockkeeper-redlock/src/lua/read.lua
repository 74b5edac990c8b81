-- READ: the lines of these keys, on one node. Changes nothing. KEYS: the lines, lk:born. ARGV: run,
-- max-keep.
local answers={}
local known=counts(read_born(KEYS[#KEYS]),ARGV[1],tonumber(ARGV[2])) and 1 or 0
for i=1,#KEYS-1 do
  local line,wrong=read_line(KEYS[i])
  if wrong then
    if wrong.err then return wrong end
    answers[i]=wrong
  else
    local holders={}
    for id,holder in pairs(line.holders) do
      holders[#holders+1]={id,packed(holder),line.notes['b'..id] or ''}
    end
    answers[i]={'line',now,string.format('%.0f',line.fence),holders,known}
  end
end
return answers
