-- Asks token-guard about a request, with HAProxy's own HTTP client (2.5 and later).

local GUARD = "http://127.0.0.1:9090/forward-auth"

-- Headers that token-guard may set: `forward` of its configuration lists them. haproxy.cfg removes what clients send.
local IDENTITY = { "x-user-id", "x-client-id", "x-scope" }

-- Headers that token-guard reads. haproxy.cfg sets the last one.
local QUESTION = { "authorization", "dpop", "x-request-id", "x-token-guard-client-certificate" }

-- Headers that the resource server gets as token-guard repeats them, if at all.
local REPEATED = { "authorization", "dpop" }

-- Milliseconds without an answer. token-guard may wait five seconds for keys.
local TIMEOUT = 10000

-- Headers of a refusal that the client gets.
local ANSWER = { "content-type", "cache-control", "www-authenticate", "dpop-nonce", "retry-after" }

-- All values of a header: HAProxy counts them from 0, and wants lists from 1.
local function values(headers, name)
    local list = {}
    local found = headers and headers[name]
    if found then
        for index = 0, #found do
            list[#list + 1] = found[index]
        end
    end
    return list
end

core.register_action("token_guard", { "http-req" }, function(txn)
    local headers = txn.http:req_get_headers()
    -- Nothing else of the client's request goes along.
    local asked = {
        ["x-forwarded-method"] = { txn.f:method() },
        ["x-forwarded-uri"] = { txn.f:pathq() },
    }
    for _, name in ipairs(QUESTION) do
        local found = values(headers, name)
        if #found > 0 then
            asked[name] = found
        end
    end
    txn.http:req_del_header("x-token-guard-client-certificate")
    local client = core.httpclient()
    local response = client:get { url = GUARD, headers = asked, timeout = TIMEOUT }
    if response and response.status == 200 then
        for _, name in ipairs(IDENTITY) do
            local found = values(response.headers, name)
            if #found == 1 then
                txn.http:req_set_header(name, found[1])
            end
        end
        for _, name in ipairs(REPEATED) do
            txn.http:req_del_header(name)
            for _, value in ipairs(values(response.headers, name)) do
                txn.http:req_add_header(name, value)
            end
        end
        txn:set_var("txn.token_guard", "allowed")
        return
    end
    local kind = response and values(response.headers, "content-type")[1]
    if kind ~= "application/json" then
        -- Not an answer of token-guard: haproxy.cfg denies the request.
        return
    end
    local told = {}
    for _, name in ipairs(ANSWER) do
        local found = values(response.headers, name)
        if #found > 0 then
            told[name] = found
        end
    end
    txn:done(txn:reply { status = response.status, headers = told, body = response.body })
end)
