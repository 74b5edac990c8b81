-- SESSION, of a detached session, which has nothing to do with lines. KEYS: its key. ARGV: for how
-- many ms the server is to remember that the session is closed; 0 only asks. Answers 1 if it was
-- closed before, and 0 otherwise.
local was_closed=redis.call('EXISTS',KEYS[1])
if ARGV[1]~='0' then redis.call('SET',KEYS[1],'closed','PX',ARGV[1]) end
return was_closed
