-- MARK, of a round with replicas, on a full server (replicas.rs). KEYS: the mark. ARGV: for how many
-- ms the mark stays.
--
-- A full server takes a command that needs memory behind a write of the same script: see
-- even_if_full() in start.lua.
redis.pcall('ZREM',KEYS[1],'')
redis.call('SET',KEYS[1],'','PX',ARGV[1])
return 1
