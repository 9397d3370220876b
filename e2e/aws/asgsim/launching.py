"""Launching one instance: zone, type, market, hook, activity; and the failures that a plan asks for.

A failure of a plan is `{"code", "message", "azs": [..], "types": [..], "market": "Spot", "count": n}`. What it leaves
out matches everything; `count` is how often it strikes, -1 or absent for ever.
"""

import json
import time

from moto.autoscaling import models
from moto.ec2.models.instance_types import INSTANCE_TYPES

from .state import ACTIVITIES, DUE, WARM, Due, after, live, now, plan

LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"


def activity(group, description, cause, code, details="", message=None):
    """A new scaling activity of the group."""
    made = models.Activity(description, cause, group, start_time=now(), end_time=None, status_code=code)
    made.details, made.status_message, made.auto_scaling_group_arn = details, message, group.arn
    made.auto_scaling_group_state = None
    if code in ("Successful", "Failed", "Cancelled"):
        made.progress, made.end_time = 100, now()
    else:
        made.progress, made.end_time = 30, None
    ACTIVITIES.setdefault(group.name, []).insert(0, made)
    return made


def finish(made, code):
    made.status_code, made.progress, made.end_time = code, 100, now()


def hook(group, transition):
    hooks = group.autoscaling_backend.lifecycle_hooks.values()
    own = (h for h in hooks if h.auto_scaling_group_name == group.name and h.lifecycle_transition == transition)
    return next(own, None)


def hook_ends(group, known):
    wait_ms = plan(group.name)["hook_ms"]
    return time.monotonic() + (int(known.heartbeat_timeout) if wait_ms is None else wait_ms / 1000)


def subnets(group):
    """Subnet by zone; empty for a group without subnets."""
    if not group.vpc_zone_identifier:
        return {}
    found = group.ec2_backend.describe_subnets(subnet_ids=group.vpc_zone_identifier.split(","))
    return {subnet.availability_zone: subnet.id for subnet in found}


def version(group):
    """The launch template version that the group launches now."""
    return group.ec2_launch_template.get_version(group.launch_template_version) if group.ec2_launch_template else None


def described_types(requirements):
    """Types of machine that meet the requirements on vCPUs and memory, smallest first.

    As AWS does unasked: of the current generation, neither burstable nor bare metal; and of the image's architecture.
    """

    def within(amount, bounds):
        return int(bounds.get("Min") or 0) <= amount <= int(bounds.get("Max") or amount)

    def fits(kind):
        return (
            within(kind["VCpuInfo"]["DefaultVCpus"], requirements.get("VCpuCount") or {})
            and within(kind["MemoryInfo"]["SizeInMiB"], requirements.get("MemoryMiB") or {})
            and kind["CurrentGeneration"]
            and not kind["BareMetal"]
            and not kind["BurstablePerformanceSupported"]
            and "x86_64" in kind["ProcessorInfo"]["SupportedArchitectures"]
        )

    found = [name for name, kind in INSTANCE_TYPES.items() if fits(kind)]
    size = lambda name: (INSTANCE_TYPES[name]["VCpuInfo"]["DefaultVCpus"], INSTANCE_TYPES[name]["MemoryInfo"]["SizeInMiB"], name)
    return sorted(found, key=size)


def shape(group):
    """Instance type and market of the group's next instance."""
    own, market = version(group), "OnDemand"
    kind = own.data.get("InstanceType") if own else group.instance_type
    if own and own.data.get("InstanceMarketOptions", {}).get("MarketType") == "spot":
        market = "Spot"
    if group.mixed_instances_policy:
        overrides = group.mixed_instances_policy["LaunchTemplate"].get("Overrides") or []
        kind = next((o["InstanceType"] for o in overrides if o.get("InstanceType")), kind)
        described = next((o["InstanceRequirements"] for o in overrides if o.get("InstanceRequirements")), None)
        if described:
            fitting = described_types(described)
            # AWS takes what it has: a different one each time, the smallest first.
            kind = fitting[31 * len(live(group)) % len(fitting)]
        distribution = group.mixed_instances_policy.get("InstancesDistribution") or {}
        base = int(distribution.get("OnDemandBaseCapacity", 0))
        above = int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))
        market = "Spot" if base <= len(live(group)) and above == 0 else "OnDemand"
    return kind or "m5.large", market


def failure(group, zone, kind, market):
    """The failure of the plan that strikes such a launch, or None. Counts it."""
    asked = plan(group.name)["fail"] or []
    for fail in [asked] if isinstance(asked, dict) else asked:
        if (
            zone in fail.get("azs", [zone])
            and kind in fail.get("types", [kind])
            and market == fail.get("market", market)
            and fail.get("count", -1) != 0
        ):
            fail["count"] = max(fail.get("count", -1) - 1, -1)
            return fail
    return None


def cause(group):
    return (
        f"At {now():%Y-%m-%dT%H:%M:%SZ} an instance was started in response to a difference between desired and "
        f"actual capacity, increasing the capacity from {len(live(group))} to {group.desired_capacity}."
    )


def failed(group, zone, market, fail):
    """The activity of a failed launch. A mixed policy puts the code before AWS's text, other groups have the text only."""
    text = fail["message"]
    if group.mixed_instances_policy:
        asked_for = "Spot" if market == "Spot" else "On-Demand"
        text = f"Could not launch {asked_for} Instances. {fail['code']} - {text}"
    text += "  Launching EC2 instance failed."
    description = "Launching a new EC2 instance.  Status Reason: " + text
    return activity(group, description, cause(group), "Failed", details(group, zone), text)


def details(group, zone):
    return json.dumps({"Subnet ID": subnets(group).get(zone, ""), "Availability Zone": zone})


def launch_one(group, zones=()):
    """Launches in the emptiest zone, in the next ones when it fails there as AWS does. None when all failed."""
    kind, market = shape(group)
    left = list(zones or group.availability_zones)
    while left:
        zone = min(left, key=lambda z: sum(s.availability_zone == z for s in live(group)))
        fail = failure(group, zone, kind, market)
        if fail is None:
            return start(group, zone, kind, market)
        failed(group, zone, market, fail)
        left.remove(zone)
    return None


def start(group, zone, kind, market):
    """An instance in Pending, or in Pending:Wait under a hook; out of the warm pool when it has one for the zone."""
    warm = next((s for s in WARM.get(group.name, []) if s.lifecycle_state != "Warmed:Pending"), None)
    if warm:
        WARM[group.name].remove(warm)
        group.instance_states.append(warm)
        warm.lifecycle_state, warm.instance._state.name, warm.instance._state.code = "Pending", "pending", 0
        made = activity(
            group,
            f"Launching a new EC2 instance from warm pool: {warm.instance_id}",
            cause(group),
            "InProgress",
            details(group, warm.availability_zone),
        )
        DUE[warm.instance_id] = Due("up", after(group.name, "warm_ms"), made)
        return warm
    state = run_instance(group, zone, kind, market)
    group.instance_states.append(state)
    description = f"Launching a new EC2 instance: {state.instance_id}"
    made = activity(group, description, cause(group), "InProgress", details(group, zone))
    known = hook(group, LAUNCHING)
    if known:
        state.lifecycle_state, made.status_code = "Pending:Wait", "MidLifecycleAction"
        step = "abandon" if known.default_result == "ABANDON" else "up"
        DUE[state.instance_id] = Due(step, hook_ends(group, known), made)
    else:
        DUE[state.instance_id] = Due("up", after(group.name, "pending_ms"), made)
    return state


def run_instance(group, zone, kind, market):
    """The EC2 instance itself, pending, with the template version it was launched from."""
    tags = {**group.get_propagated_tags(), models.ASG_NAME_TAG: group.name, **group.instance_tags}
    template = {"LaunchTemplateId": group.ec2_launch_template.id} if group.ec2_launch_template else None
    reservation = group.ec2_backend.run_instances(
        group.image_id,
        1,
        group.user_data,
        group.security_groups,
        instance_type=kind,
        tags={"instance": tags},
        placement=zone,
        launch_config=group.launch_config,
        launch_template=template,
        is_instance_type_default=False,
        subnet_id=subnets(group).get(zone),
    )
    instance = reservation.instances[0]
    instance.autoscaling_group = group
    instance.lifecycle = "spot" if market == "Spot" else None
    instance._state.name, instance._state.code = "pending", 0
    protected = group.new_instances_protected_from_scale_in
    state = models.InstanceState(instance, lifecycle_state="Pending", protected_from_scale_in=protected)
    state.template_version, state.market = getattr(version(group), "number", None), market
    return state


def launch_template(state):
    group = state.auto_scaling_group
    if group is None or not group.ec2_launch_template:
        return None
    own = getattr(state, "template_version", 1)
    template = group.ec2_launch_template
    return {"LaunchTemplateId": template.id, "LaunchTemplateName": template.name, "Version": str(own)}


models.InstanceState.launch_template = property(launch_template)
