-- A request of bench/tickets with a key of its own each time: wrk -s tickets.lua URL -- ROUTE RUN ID SECRET COUNT
-- ROUTE: rows (bench/ingest's row) or tickets. RUN tells apart the runs on one database. COUNT: end when so many are
-- answered; 0: when the time is over.

local ffi = require("ffi")
ffi.cdef("int getpid(void); int kill(int pid, int signal);")

local text = "Rua das Laranjeiras, 1024; retirada de conteiner; nota fiscal; "
local payload = string.rep(text, 9):sub(1, 520)
local head, tail, run
local count, asked, idle = 0, 0, 0
local connections = 64

-- A connection that has had its answer asks how long to wait before its next request.
local function delay_after(last)
    return function()
        asked = asked + 1
        if asked <= last then
            return 0
        end
        idle = idle + 1
        if idle == connections then
            ffi.C.kill(ffi.C.getpid(), 2) -- SIGINT: wrk ends and prints its figures
        end
        return 3600000
    end
end

function init(args)
    if tonumber(args[5]) > 0 then
        delay = delay_after(tonumber(args[5]))
    end
    local route, before, after = args[1], nil, nil
    run = tonumber(args[2])
    if route == "rows" then
        wrk.path, before, after = "/bench/rows", '{"id":"', '","payload":"' .. payload .. '"}'
    else
        -- A flat ticket of 520 bytes in all, so that what is stored is as long.
        wrk.path, before = "/api/tickets", '{"businessEntity":"TCK","businessDocId":"'
        after = '","companyCode":"0050","branchCode":"1","destinationCode":"D7","phaseCode":15,"shipmentEvent":"RCD",'
            .. '"functionalAckIsRequired":true,"targetApplicationCode":"ASB","note":"'
        after = after .. payload:sub(1, 520 - #before - 36 - #after - 2) .. '"}'
    end
    wrk.method = "POST"
    wrk.headers["X-Client-Id"] = args[3]
    wrk.headers["X-Client-Secret"] = args[4]
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = before .. string.rep("0", 36) .. after
    local request = wrk.format()
    local at = request:find(before, 1, true) + #before
    head, tail = request:sub(1, at - 1), request:sub(at + 36)
end

function request()
    count = count + 1
    return head .. string.format("019a%04x-0000-7000-8000-%012d", run, count) .. tail
end

function done(summary, latency)
    local e = summary.errors
    io.stderr:write(string.format('{"ok":%d,"failed":%d,"perSecond":%.0f,"p50Ms":%.2f,"p99Ms":%.2f}\n',
        summary.requests, e.status + e.connect + e.read + e.write + e.timeout,
        summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
