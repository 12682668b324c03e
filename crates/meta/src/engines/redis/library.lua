-- Functions of a store's partition. KEYS[1] is the partition's marker; its name without the last letter
-- begins the names of all keys of the partition:
--   m  marker: the store's identity    r<key>  record                 o<session>  outcomes of commits
--   z<first 8 bytes of a key>  index: the rest of the key             g<table>    index: those first bytes
-- Indexes are sorted sets whose members all have score 0, so that they stand in the order of their bytes.
-- Numbers of 64 bits are handled in halves, because a Lua number holds 53 bits.

local GROUP = 8
local HEAD = 46
local PLAIN, ENCODED, HINTED = 2, 3, 4
local LAST_KIND = 6
local REGULAR = 0
local DIRECTORY = 1
local INTENT = 255
local TWO_32 = 4294967296
-- A function cannot pass more values to a command than fit on the stack.
local MANY = 1000

local NOT_FOUND, NOT_DIRECTORY, CORRUPT, BAD_COUNTER, NO_MARKER, STALE = -1, -2, -3, -4, -5, -6


-- `number` is 8 bytes; `delta` is a sign and a magnitude of 8 bytes.
local function add(number, delta)
  local high, low = struct.unpack('>I4I4', number)
  local delta_high, delta_low = struct.unpack('>I4I4', delta, 2)
  if string.sub(delta, 1, 1) == '-' then
    high, low = high - delta_high, low - delta_low
    if low < 0 then high, low = high - 1, low + TWO_32 end
    if high < 0 then high, low = 0, 0 end
  else
    high, low = high + delta_high, low + delta_low
    if low >= TWO_32 then high, low = high + 1, low - TWO_32 end
    if high >= TWO_32 then high, low = TWO_32 - 1, TWO_32 - 1 end
  end
  return struct.pack('>I4I4', high, low)
end

local function later(a, b)
  local a_high, a_low, a_nanos = struct.unpack('>i4I4I4', a)
  local b_high, b_low, b_nanos = struct.unpack('>i4I4I4', b)
  if a_high ~= b_high then return a_high > b_high and a or b end
  if a_low ~= b_low then return a_low > b_low and a or b end
  return a_nanos > b_nanos and a or b
end

-- `delta`: time (12 bytes), links (4 bytes, signed), entries (sign and 8 bytes).
local function merge(record, delta)
  local format, kind = string.byte(record, 1, 2)
  -- Only files are encoded.
  local is_known = format == PLAIN or format == HINTED or (format == ENCODED and kind == REGULAR)
  if not is_known or #record < HEAD or kind > LAST_KIND then return nil, CORRUPT end
  if kind ~= DIRECTORY then return nil, NOT_DIRECTORY end
  local version_high, version_low, links = struct.unpack('>I4I4I4', record, 3)
  version_low = version_low + 1
  if version_low == TWO_32 then version_high, version_low = (version_high + 1) % TWO_32, 0 end
  links = math.max(0, math.min(TWO_32 - 1, links + struct.unpack('>i4', delta, 13)))
  local time = string.sub(delta, 1, 12)
  return table.concat({
    string.sub(record, 1, 2), struct.pack('>I4I4I4', version_high, version_low, links),
    add(string.sub(record, 15, 22), string.sub(delta, 17)), time, later(string.sub(record, 35, 46), time),
    string.sub(record, HEAD + 1),
  })
end

local function index(prefix, key)
  local group = string.sub(key, 1, GROUP)
  local members = prefix .. 'z' .. group
  local is_new = redis.call('ZADD', members, 0, string.sub(key, GROUP + 1)) == 1
  if is_new and redis.call('ZCARD', members) == 1 then
    redis.call('ZADD', prefix .. 'g' .. string.sub(key, 1, 1), 0, string.sub(group, 2))
  end
end

local function unindex(prefix, key)
  local group = string.sub(key, 1, GROUP)
  local members = prefix .. 'z' .. group
  redis.call('ZREM', members, string.sub(key, GROUP + 1))
  if redis.call('EXISTS', members) == 0 then
    redis.call('ZREM', prefix .. 'g' .. string.sub(key, 1, 1), string.sub(group, 2))
  end
end

-- The end of what starts with `prefix`, as the upper bound of a range.
local function upper(prefix)
  for at = #prefix, 1, -1 do
    local byte = string.byte(prefix, at)
    if byte < 255 then return '(' .. string.sub(prefix, 1, at - 1) .. string.char(byte + 1) end
  end
  return '+'
end

-- Adds keys of one group to `found` that start with `rest` behind the group and come after `after`.
local function scan_group(prefix, group, rest, after, limit, found)
  local lower = after and '(' .. after or '[' .. rest
  local members = prefix .. 'z' .. group
  members = redis.call('ZRANGEBYLEX', members, lower, upper(rest), 'LIMIT', 0, limit - #found)
  for _, member in ipairs(members) do found[#found + 1] = group .. member end
end

-- Up to `limit` keys that start with `start` and come after `after`, in order. `after` is false or starts
-- with `start`: strings are not compared here, because Lua compares them by the server's locale.
local function scan(prefix, start, after, limit)
  local found = {}
  if #start >= GROUP then
    local tail = after and string.sub(after, GROUP + 1)
    scan_group(prefix, string.sub(start, 1, GROUP), string.sub(start, GROUP + 1), tail, limit, found)
    return found
  end
  local letter, groups = string.sub(start, 1, 1), prefix .. 'g' .. string.sub(start, 1, 1)
  local last = after and string.sub(after, 1, GROUP)
  local lower = last and '[' .. string.sub(last, 2) or '[' .. string.sub(start, 2)
  while #found < limit do
    local some = redis.call('ZRANGEBYLEX', groups, lower, upper(string.sub(start, 2)), 'LIMIT', 0, 64)
    for _, rest in ipairs(some) do
      local group = letter .. rest
      local tail = group == last and string.sub(after, GROUP + 1) or false
      scan_group(prefix, group, '', tail, limit, found)
      if #found >= limit then break end
    end
    if #some < 64 then break end
    lower = '(' .. some[#some]
  end
  return found
end

local function belongs(marker, store)
  return redis.call('GET', marker) == store
end

-- Reads the marker, and into `records` what the conditions and mutations ask for (false where there is
-- none), all at once. One more key never exists: while the slot is on its way to another server, asking
-- for it fails, and the whole call with it. Otherwise that could happen between two writes, at a key that
-- is not here any more. Returns the marker.
local function read_all(marker, prefix, args, at, count)
  local names, keys = {marker, prefix .. '-'}, {}
  local function want(key)
    names[#names + 1] = prefix .. 'r' .. key
    keys[#keys + 1] = key
  end
  for _ = 1, count do
    local kind = args[at]
    if kind ~= 'X' then want(args[at + 1]) end
    at = at + ((kind == 'E' or kind == 'O') and 3 or 2)
  end
  while args[at] do
    local kind = args[at]
    if kind == 'M' or kind == 'A' then want(args[at + 1]) end
    at = at + (kind == 'D' and 2 or 3)
  end
  local values, records = redis.call('MGET', unpack(names)), {}
  for number, key in ipairs(keys) do records[key] = values[number + 2] end
  return values[1], records
end

-- Each condition is its kind, key and (kinds E and O) value. Returns the number of the first that fails, or nil
-- and the place behind the conditions.
local function failing(prefix, args, at, count, records)
  for number = 1, count do
    local kind, key = args[at], args[at + 1]
    local record = records[key]
    at = at + 2
    local holds
    if kind == 'E' then
      holds = record == args[at]
      at = at + 1
    elseif kind == 'O' then
      holds = not record or record == args[at]
      at = at + 1
    elseif kind == 'A' then
      holds = not record
    elseif kind == 'P' then
      holds = record
    elseif kind == 'U' then
      holds = record and string.byte(record) ~= INTENT
    else
      holds = #scan(prefix, key, false, 1) == 0
    end
    if not holds then return number end
  end
  return nil, at
end

-- What the mutations make of each key, or nil, the error and the number of the mutation.
local function resolve(args, at, records)
  local changes, order = {}, {}
  local function current(key)
    local change = changes[key]
    if change ~= nil then return change end
    return records[key]
  end
  local number = 0
  while args[at] do
    local kind, key, argument = args[at], args[at + 1], args[at + 2]
    number = number + 1
    at = at + (kind == 'D' and 2 or 3)
    local value
    if kind == 'P' then
      value = argument
    elseif kind == 'D' then
      value = false
    elseif kind == 'M' then
      local record = current(key)
      if not record then return nil, NOT_FOUND, number end
      local failure
      value, failure = merge(record, argument)
      if failure then return nil, failure, number end
    else
      local counter = current(key) or '\0\0\0\0\0\0\0\0'
      if #counter ~= 8 then return nil, BAD_COUNTER, number end
      value = add(counter, argument)
    end
    if changes[key] == nil then order[#order + 1] = key end
    changes[key] = value
  end
  return changes, order
end

local function apply(prefix, changes, order, records)
  local pairs_to_set = {}
  for _, key in ipairs(order) do
    local name, value = prefix .. 'r' .. key, changes[key]
    if not value then
      if redis.call('DEL', name) == 1 then unindex(prefix, key) end
    else
      pairs_to_set[#pairs_to_set + 1] = name
      pairs_to_set[#pairs_to_set + 1] = value
      if not records[key] then index(prefix, key) end
    end
  end
  for from = 1, #pairs_to_set, MANY do
    redis.call('MSET', unpack(pairs_to_set, from, math.min(from + MANY - 1, #pairs_to_set)))
  end
end

-- Forgets outcomes that the client will not ask for again.
local function forget(outcomes, from, to)
  while from < to do
    local fields = {}
    while from < to and #fields < MANY do
      fields[#fields + 1] = string.format('%.0f', from)
      from = from + 1
    end
    redis.call('HDEL', outcomes, unpack(fields))
  end
end

-- ARGV: store, session, number of the commit, lowest number that is not finished, milliseconds to keep
-- the session ('' to leave them), number of conditions, conditions, mutations.
-- Returns 0 when applied, n when condition n failed, or a negative number (see above) and a mutation.
local function commit(keys, args)
  local marker = keys[1]
  local prefix = string.sub(marker, 1, -2)
  local count = tonumber(args[6])
  local store, records = read_all(marker, prefix, args, 7, count)
  if store ~= args[1] then return {NO_MARKER, 0} end

  local outcomes = prefix .. 'o' .. args[2]
  local number, lowest, keep_ms = args[3], args[4], args[5]
  local known = redis.call('HMGET', outcomes, number, 'low')
  if known[1] then
    -- A write, so that WAIT on this connection waits for the commit that was applied before.
    redis.call('PEXPIRE', outcomes, keep_ms == '' and 600000 or keep_ms)
    return 0
  end
  local floor = tonumber(known[2] or lowest)
  if tonumber(number) < floor then return {STALE, 0} end

  local failed, at = failing(prefix, args, 7, count, records)
  if failed then return failed end
  local changes, order, culprit = resolve(args, at, records)
  if not changes then return {order, culprit} end

  apply(prefix, changes, order, records)
  lowest = math.max(floor, tonumber(lowest))
  redis.call('HSET', outcomes, number, '', 'low', string.format('%.0f', lowest))
  if keep_ms ~= '' then redis.call('PEXPIRE', outcomes, keep_ms) end
  forget(outcomes, floor, lowest)
  return 0
end

-- ARGV: store, prefix, key to start after ('' for none), limit. Returns keys and values in turn.
local function scan_records(keys, args)
  local marker = keys[1]
  local prefix = string.sub(marker, 1, -2)
  if not belongs(marker, args[1]) then return NO_MARKER end
  local found = scan(prefix, args[2], args[3] ~= '' and args[3] or false, tonumber(args[4]))
  local reply = {}
  for from = 1, #found, MANY do
    local names = {}
    for at = from, math.min(from + MANY - 1, #found) do names[#names + 1] = prefix .. 'r' .. found[at] end
    local values = redis.call('MGET', unpack(names))
    for at, value in ipairs(values) do
      if not value then return CORRUPT end
      reply[#reply + 1] = found[from + at - 1]
      reply[#reply + 1] = value
    end
  end
  return reply
end

-- ARGV: store, key. Returns the record and, where it is a directory entry, the key and the record of the
-- inode that it names.
local function follow(keys, args)
  local marker, key = keys[1], args[2]
  local prefix = string.sub(marker, 1, -2)
  if not belongs(marker, args[1]) then return NO_MARKER end
  local value = redis.call('GET', prefix .. 'r' .. key)
  if not value then return {} end
  if #value ~= 10 then return {value} end
  local second = 'I' .. string.sub(value, 3)
  return {value, second, redis.call('GET', prefix .. 'r' .. second)}
end

redis.register_function('@commit', commit)
-- The same for commits that give room back: they must work when the memory is full.
redis.register_function{function_name = '@release', callback = commit, flags = {'allow-oom'}}
redis.register_function{function_name = '@scan', callback = scan_records, flags = {'no-writes'}}
redis.register_function{function_name = '@follow', callback = follow, flags = {'no-writes'}}
