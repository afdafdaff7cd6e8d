-- wrk's side of `python -m bench load`: a mix of requests, and what was answered, as one line of JSON.
-- Arguments after `--`: token, kind (lookups, dashboards, submissions or mixed), job, lookup body, job body,
-- and `heeds` where clients wait as Retry-After tells them.
local token, kind, job, lookup, submission
local counters = {}

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function setup(thread)
  counters[#counters + 1] = thread
end

function init(args)
  token, kind, job = args[1], args[2], args[3]
  lookup, submission = read(args[4]), read(args[5])
  ok, refused, retry_after, failed, wait_ms = 0, 0, 0, 0, 0
  heeds = args[6] == "heeds"
  math.randomseed(7)
end

local function get(path)
  return wrk.format("GET", path, {["Authorization"] = "Bearer " .. token})
end

local function post(path, body)
  local headers = {["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json"}
  return wrk.format("POST", path, headers, body)
end

local function dashboard()
  local paths = {"/v1/jobs?page_size=50", "/v1/jobs/" .. job, "/v1/jobs/" .. job .. "/trials?page_size=50"}
  return get(paths[math.random(#paths)])
end

function request()
  local drawn = math.random()
  if kind == "submissions" or (kind == "mixed" and drawn < 0.02) then
    return post("/v1/jobs", submission)
  elseif kind == "dashboards" or (kind == "mixed" and drawn < 0.3) then
    return dashboard()
  end
  return post("/v1/lookup", lookup)
end

function response(status, headers)
  if status < 300 then
    ok = ok + 1
  elseif status == 503 or status == 429 then
    refused = refused + 1
    for name in pairs(headers) do
      if name:lower() == "retry-after" then
        retry_after = retry_after + 1
        if heeds then wait_ms = 1000 * tonumber(headers[name]) end
      end
    end
  else
    failed = failed + 1
  end
end

-- Called before each request of a connection, right after its response: who was refused waits.
function delay()
  local this = wait_ms
  wait_ms = 0
  return this
end

function done(summary, latency)
  local sums = {ok = 0, refused = 0, retry_after = 0, failed = 0}
  for _, thread in ipairs(counters) do
    for name in pairs(sums) do sums[name] = sums[name] + thread:get(name) end
  end
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"ok": %d, "refused": %d, "retry_after": %d, "failed": %d, "broken": %d, "secs": %.3f,'
      .. ' "p50_ms": %.3f, "p99_ms": %.3f}\n',
    sums.ok, sums.refused, sums.retry_after, sums.failed,
    errors.connect + errors.read + errors.write + errors.timeout,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
