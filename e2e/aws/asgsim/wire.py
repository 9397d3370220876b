"""The entry point: counts and logs every call, lets faults strike, and answers the control API.

PUT    /_sim/groups/<name|*>   how a group behaves, see state.DEFAULTS; {} for the defaults
GET    /_sim/groups            [{name, min, max, desired, live, instances, status}]
GET    /_sim/instances         [{id, group, zone, type, lifecycle, state, market, cpu, memory_mib, gpus, ...}], warm ones too
GET    /_sim/terminations      [{id, group, why, at}], why: request, scale-in, outside, unhealthy, rebalance, hook, deleted
POST   /_sim/faults            [fault, ...] in place of all before. A fault is
         {"service", "action", "key", "group"}: which calls it strikes, each optional
         {"skip": n, "count": n}: it lets n calls pass, then strikes so often; count is 1, -1 for ever
         {"latency_ms": n}: the call is late
         {"code", "message", "status"}: the call is answered so and has no effect
         {"commit": true}: the call takes effect all the same, before the delay and the error
         {"drop": true}: the connection is closed in place of an answer
GET    /_sim/calls[/<key>]     {"autoscaling:DescribeAutoScalingGroups": 12, ...}; DELETE clears
GET    /_sim/log[/<key>]       [{key, call, params, status, at}] in order
PUT    /_sim/spot-prices       {type: {zone: "0.031"}}: prices that hold from now on
POST   /_sim/reset             forgets all of this; the groups themselves go with POST /moto-api/reset
"""

import io
import json
import socket
import time
import urllib.parse
import uuid
from xml.sax.saxutils import escape

from moto.autoscaling.models import autoscaling_backends

from . import state
from .spot_prices import set_prices
from .state import CALLS, FAULTS, LOCK, LOG, PLANS, TERMINATIONS, WARM, WRITING, Era, live, now, plan, reset

CONTROL = "/_sim/"
LOG_MAX = 20_000
# Auto Scaling's own writes; two at once to one group are ResourceContention.
WRITES = (
    "SetDesiredCapacity",
    "TerminateInstanceInAutoScalingGroup",
    "LaunchInstances",
    "UpdateAutoScalingGroup",
    "DeleteAutoScalingGroup",
)
CONTENTION = {
    "code": "ResourceContention",
    "status": 500,
    "message": "You already have a pending update to an Auto Scaling resource (for example, an Auto Scaling group, "
    "instance, or load balancer).",
}


def groups():
    for account in list(autoscaling_backends.values()):
        for backend in list(account.values()):
            yield from backend.autoscaling_groups.values()


class Sim:
    """A WSGI application around moto's."""

    def __init__(self, moto):
        self.moto = moto

    def __call__(self, env, start_response):
        body = env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
        env["wsgi.input"] = io.BytesIO(body)
        path = env["PATH_INFO"]
        if path.startswith(CONTROL):
            status, answer = control(env["REQUEST_METHOD"], path[len(CONTROL) :], body)
            return send(start_response, status, [("Content-Type", "application/json")], answer.encode())
        if path.startswith("/moto-api"):
            return send(start_response, *self.run(env))

        call = Call(env, body)
        fault = call.count_and_find_fault()
        answer = None
        if fault is None or fault.get("commit") or not (fault.get("code") or fault.get("drop")):
            if fault and not fault.get("commit"):
                time.sleep(fault.get("latency_ms", 0) / 1000)
            answer = self.run_alone(env, call)
            if fault and fault.get("commit"):
                time.sleep(fault.get("latency_ms", 0) / 1000)
        else:
            time.sleep(fault.get("latency_ms", 0) / 1000)
        if fault and fault.get("drop"):
            call.log("dropped")
            env["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return send(start_response, "500 Dropped", [], b"")
        if fault and fault.get("code"):
            answer = error(call.service, fault)
        call.log(answer[0].split(" ")[0])
        return send(start_response, *answer)

    def run_alone(self, env, call):
        """Runs the call; a write holds its group for a while, in which other writes are refused."""
        group = call.group() if call.action in WRITES else None
        if group is None:
            return self.run(env, call)
        with LOCK:
            if group in WRITING:
                return error(call.service, CONTENTION)
            WRITING.add(group)
            hold_ms = plan(group)["write_ms"]
        try:
            time.sleep(hold_ms / 1000)
            return self.run(env, call)
        finally:
            with LOCK:
                WRITING.discard(group)

    def run(self, env, call=None):
        caught = []
        with LOCK:
            # It slept through a reset: whoever sent it is gone, and its group's name may be another test's.
            if call and call.era != Era.now:
                return "500 Reset", [], b""
            body = b"".join(self.moto(env, lambda status, headers, exc_info=None: caught.append((status, headers))))
        return *caught[-1], body


class Call:
    """One call of the AWS API."""

    def __init__(self, env, body):
        auth = env.get("HTTP_AUTHORIZATION", "")
        scope = auth.split("Credential=")[1].split(",")[0].split("/") if "Credential=" in auth else ["?"] * 5
        self.key, self.service = scope[0], scope[3]
        self.params = {}
        if "json" not in env.get("CONTENT_TYPE", ""):
            self.params = {k: v[0] for k, v in urllib.parse.parse_qs(body.decode("latin1")).items()}
        self.action = self.params.pop("Action", f"{env['REQUEST_METHOD']} {env['PATH_INFO']}")
        self.era = Era.now

    def group(self):
        """The group that the call is about; for a call about an instance, that instance's."""
        instance = self.params.get("InstanceId")
        if instance is None:
            return self.params.get("AutoScalingGroupName")
        with LOCK:
            own = (g.name for g in groups() if any(s.instance_id == instance for s in g.instance_states))
            return next(own, None)

    def count_and_find_fault(self):
        with LOCK:
            CALLS[self.key, f"{self.service}:{self.action}"] += 1
            for fault in FAULTS:
                asked = {"service": self.service, "action": self.action, "key": self.key}
                if any(fault.get(name, own) != own for name, own in asked.items()) or fault.get("count", 1) == 0:
                    continue
                if "group" in fault and fault["group"] != self.group():
                    continue
                if 0 < fault.get("skip", 0):
                    fault["skip"] -= 1
                    continue
                if 0 < fault.get("count", 1):
                    fault["count"] = fault.get("count", 1) - 1
                return dict(fault)
        return None

    def log(self, status):
        params = {k: v for k, v in self.params.items() if k != "Version"}
        with LOCK:
            if self.era == Era.now and len(LOG) < LOG_MAX:
                call = f"{self.service}:{self.action}"
                LOG.append({"key": self.key, "call": call, "params": params, "status": status, "at": now().isoformat()})


def send(start_response, status, headers, body):
    headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]


def error(service, fault):
    """An error in the service's own wire format."""
    status = f"{fault.get('status', 400)} Fault"
    code, message, request_id = fault["code"], fault.get("message", fault["code"]), uuid.uuid4()
    if service == "eks":
        headers = [("Content-Type", "application/json"), ("x-amzn-ErrorType", code)]
        return status, headers, json.dumps({"message": message}).encode()
    inner = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    if service == "ec2":
        text = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
    else:
        text = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    return status, [("Content-Type", "text/xml")], text.encode()


def control(method, path, body):
    """Answers the control API: an HTTP status line and JSON."""
    room, _, rest = path.partition("/")
    rest = urllib.parse.unquote(rest)
    answer = {}
    with LOCK:
        if (method, room) == ("PUT", "groups"):
            asked = json.loads(body or b"{}")
            unknown = asked.keys() - state.DEFAULTS.keys()
            if unknown:
                return "400 Bad Request", json.dumps({"error": f"a plan has no {sorted(unknown)}"})
            PLANS[rest] = asked
        elif (method, room) == ("GET", "groups"):
            answer = [describe_group(group) for group in groups()]
        elif (method, room) == ("GET", "instances"):
            answer = [describe(s) for g in groups() for s in [*g.instance_states, *WARM.get(g.name, [])]]
        elif (method, room) == ("GET", "terminations"):
            answer = TERMINATIONS
        elif (method, room) == ("POST", "faults"):
            FAULTS[:] = json.loads(body)
        elif room == "calls":
            for (key, call), count in CALLS.items():
                if rest in ("", key):
                    answer[call] = answer.get(call, 0) + count
            if method == "DELETE":
                CALLS.clear()
        elif (method, room) == ("GET", "log"):
            answer = [entry for entry in LOG if rest in ("", entry["key"])]
        elif (method, room) == ("PUT", "spot-prices"):
            set_prices(json.loads(body))
        elif (method, room) == ("POST", "reset"):
            reset()
        else:
            return "404 Not Found", json.dumps({"error": f"there is no {method} {CONTROL}{path}"})
        return "200 OK", json.dumps(answer)


def describe_group(group):
    return {
        "name": group.name,
        "min": group.min_size,
        "max": group.max_size,
        "desired": group.desired_capacity,
        "live": len(live(group)),
        "instances": len(group.instance_states),
        "status": group.status,
    }


def describe(own):
    """What the machine itself knows: what its kubelet would put on the Node."""
    instance, group = own.instance, own.auto_scaling_group
    kind = group.ec2_backend.describe_instance_types([own.instance_type])[0]
    network = kind["NetworkInfo"]
    interfaces, addresses = network["MaximumNetworkInterfaces"], network["Ipv4AddressesPerInterface"]
    # The manufacturer's name decides the resource, as device plugins do.
    gpus = sum(gpu["Count"] for gpu in kind.get("GpuInfo", {}).get("Gpus", []) if gpu["Manufacturer"] == "NVIDIA")
    return {
        "id": own.instance_id,
        "group": group.name,
        "zone": own.availability_zone,
        "type": own.instance_type,
        "lifecycle": own.lifecycle_state,
        "state": instance._state.name,
        "market": getattr(own, "market", "OnDemand"),
        "template_version": getattr(own, "template_version", None),
        "host": instance.private_dns_name,
        "launched_at": str(instance.launch_time),
        "cpu": kind["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": kind["MemoryInfo"]["SizeInMiB"],
        "arch": kind["ProcessorInfo"]["SupportedArchitectures"][-1],
        "gpus": gpus,
        "pods": interfaces * (addresses - 1) + 2,
    }
