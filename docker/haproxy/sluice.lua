-- http-request lua.sluice URL: asks Sluice whether the request is allowed, and sets variables for
-- haproxy.cfg: txn.sluice_status, txn.ratelimit_policy, txn.ratelimit, txn.retry_after.
-- Clients cannot add attributes: only the headers named in the URL count, and those are set here.

local names = { ["ratelimit-policy"] = "txn.ratelimit_policy", ratelimit = "txn.ratelimit",
                ["retry-after"] = "txn.retry_after" }

core.register_action("sluice", { "http-req" }, function(txn, url)
  local answer = core.httpclient():get({
    url = url,
    timeout = 1000, -- ms; more than the longest delay of a leaky_bucket (`max_wait` in the URL)
    headers = {
      ["x-original-uri"] = { txn.sf:pathq() },
      ["x-original-method"] = { txn.sf:method() },
      ["x-client-ip"] = { txn.sf:src() },
      -- If Sluice has `callers`: ["authorization"] = { "Bearer TOKEN" },
    },
  })
  txn:set_var("txn.sluice_status", answer.status or 0)
  for header, variable in pairs(names) do
    local values = answer.headers and answer.headers[header]
    if values then txn:set_var(variable, values[0]) end
  end
end, 1)
