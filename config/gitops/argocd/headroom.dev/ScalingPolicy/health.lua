-- Argo CD: health of Headroom's objects. Stalled is a mistake in the spec, Ready is accepted and running; trouble with a
-- cloud or a metric is told in the message and does not degrade the application, for it comes and goes by itself.
local status = obj.status
if status == nil or status.conditions == nil then
  return {status = "Progressing", message = "Headroom has not looked at it yet"}
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "Headroom has not seen the last change yet"}
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local stalled, ready = conditions.Stalled, conditions.Ready
if stalled ~= nil and stalled.status == "True" then
  return {status = "Degraded", message = stalled.reason .. ": " .. (stalled.message or "")}
end
if obj.spec ~= nil and obj.spec.mode == "Suspend" then
  return {status = "Suspended", message = "mode: Suspend"}
end
if ready == nil or ready.status ~= "True" then
  return {status = "Progressing", message = ready and ready.message or "not ready yet"}
end
local notes = {}
for _, name in ipairs({"BackingOff", "AtLimit", "ProviderDegraded", "ScalingLimited", "FallbackActive", "ReplicasContested"}) do
  if conditions[name] ~= nil and conditions[name].status == "True" then
    table.insert(notes, name .. ": " .. (conditions[name].message or ""))
  end
end
for _, name in ipairs({"ProviderAvailable", "MetricsAvailable"}) do
  if conditions[name] ~= nil and conditions[name].status == "False" then
    table.insert(notes, name .. " is false: " .. (conditions[name].message or ""))
  end
end
return {status = "Healthy", message = #notes > 0 and table.concat(notes, "; ") or ready.message}
