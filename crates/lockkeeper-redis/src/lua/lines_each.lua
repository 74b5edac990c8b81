-- LINES. KEYS: the four of each name. ARGV: how many bytes of claims are wanted at most. Answers
-- for each name: 0 if nobody holds the lock; the name if its key has only its hash, the state, and
-- the claims, as LINE does; the name, or 1, if the claims are too many bytes; 2 behind such a line,
-- whose claims the script does not read; or an error.
local time=call('TIME')
local now,bytes_left=time[1]*1000000+time[2],tonumber(ARGV[1])
local answers={}

-- Returns the answer about one line. The files up to lines.lua are its body.
local function list_line(line_key,queue_key,claims_key,tombstones_key,id,stored)
