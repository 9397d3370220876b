"""AWS Auto Scaling as it behaves, for tests: moto's API with an asynchronous group reconciler under it.

moto 5.2.5 answers the AWS wire formats from AWS's own model files, but launches instances inside the call, checks no
bounds, keeps no scaling activities and cannot fail. This package replaces those parts of its Auto Scaling model. Its
rules come from AWS's documentation and from issue reports, not from a recorded account.

`python -m asgsim --port 0` prints `listening on N`. AWS's API is on `/`, the control API of tests on `/_sim/` (wire.py).
"""
