-- Argo CD: which actions are offered; the one that would change nothing is greyed out.
local mode = (obj.spec and obj.spec.mode) or "Apply"
return {
  ["pause"] = {["disabled"] = mode == "Suspend"},
  ["preview"] = {["disabled"] = mode == "Preview"},
  ["resume"] = {["disabled"] = mode == "Apply"},
}
