-- A request of bench/tickets with a key of its own each time: wrk -s tickets.lua URL -- ROUTE RUN ID SECRET
-- ROUTE: rows (bench/ingest's row) or tickets. RUN tells apart the runs on one database.

local text = "Rua das Laranjeiras, 1024; retirada de conteiner; nota fiscal; "
local payload = string.rep(text, 9):sub(1, 520)
local head, tail, run
local count = 0

function init(args)
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
