-- Argo CD: sets spec.mode to Suspend. If Git declares the mode, write it there instead: the next sync undoes this.
obj.spec = obj.spec or {}
obj.spec.mode = "Suspend"
return obj
