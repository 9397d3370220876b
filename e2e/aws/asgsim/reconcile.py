"""The loop that makes groups be what was asked of them: launches, scale-in, hooks, warm pools, health, AZRebalance."""

import sys
import time
from collections import Counter

from moto.autoscaling import models

from .launching import TERMINATING, activity, finish, hook, hook_ends, launch_one, run_instance, shape
from .state import (
    DUE,
    GONE,
    LOCK,
    NEXT_TRY,
    TOO_MANY_UNTIL,
    UNEQUAL_SINCE,
    WARM,
    Due,
    after,
    live,
    now,
    plan,
    terminated,
)

PERIOD_S = 0.05
# In UNEQUAL_SINCE: the instance in place of another one is on its way.
MOVING = float("inf")


def start_terminate(group, state, why):
    """Begins the end of an instance; nothing when it has begun."""
    if state.lifecycle_state in GONE:
        return
    terminated(state, why)
    known = hook(group, TERMINATING)
    state.lifecycle_state = "Terminating:Wait" if known else "Terminating"
    before = DUE.get(state.instance_id)
    if before and before.activity and before.step in ("up", "abandon"):
        finish(before.activity, "Cancelled")
    ends = hook_ends(group, known) if known else after(group.name, "terminate_ms")
    DUE[state.instance_id] = Due("gone", ends)


def step(group, state, due):
    """Does what was due for an instance."""
    del DUE[state.instance_id]
    if due.activity:
        finish(due.activity, "Cancelled" if due.step == "abandon" else "Successful")
    instance = state.instance
    if due.step == "abandon":
        terminated(state, "hook")
        state.lifecycle_state = "Terminating"
        DUE[state.instance_id] = Due("gone", after(group.name, "terminate_ms"))
    elif due.step == "up" and state.lifecycle_state.startswith("Pending"):
        state.lifecycle_state = "InService"
        instance._state.name, instance._state.code = "running", 16
    elif due.step == "warmed":
        state.lifecycle_state = f"Warmed:{group.warm_pool.pool_state or 'Stopped'}" if group.warm_pool else "Warmed:Stopped"
        if state.lifecycle_state == "Warmed:Running":
            instance._state.name, instance._state.code = "running", 16
        else:
            instance._state.name, instance._state.code = "stopped", 80
    elif due.step == "gone":
        group.instance_states.remove(state)
        if takes_back(group, state):
            to_warm_pool(group, state)
        elif instance._state.name != "terminated":
            instance.terminate()


def takes_back(group, state):
    """Whether a terminated instance goes to the warm pool. What was ended outside can not."""
    policy = (group.warm_pool.instance_reuse_policy or {}) if group.warm_pool else {}
    return str(policy.get("ReuseOnScaleIn")).lower() == "true" and state.instance._state.name == "running"


def to_warm_pool(group, state):
    state.lifecycle_state = "Warmed:Pending"
    WARM.setdefault(group.name, []).append(state)
    DUE[state.instance_id] = Due("warmed", after(group.name, "pending_ms"))


def fill_warm_pool(group):
    """Keeps as many prepared instances as the pool asks for: up to MaxGroupPreparedCapacity, or MaxSize, of all."""
    pool, warm = group.warm_pool, WARM.setdefault(group.name, [])
    asked = pool.max_group_prepared_capacity
    prepared = group.max_size if asked is None else int(asked)
    wanted = max(prepared - group.desired_capacity, int(pool.min_size or 0), 0)
    coming = sum(s.lifecycle_state in GONE and takes_back(group, s) for s in group.instance_states)
    while len(warm) + coming < wanted:
        kind, market = shape(group)
        zones = group.availability_zones
        zone = min(zones, key=lambda z: sum(s.availability_zone == z for s in warm))
        to_warm_pool(group, run_instance(group, zone, kind, market))
    while wanted < len(warm):
        surplus = warm.pop()
        DUE.pop(surplus.instance_id, None)
        surplus.instance.terminate()


def replace_unhealthy(group, suspended):
    if suspended & {"HealthCheck", "ReplaceUnhealthy"}:
        return
    for state in list(group.instance_states):
        if state.health_status == "Unhealthy" and state.lifecycle_state == "InService":
            start_terminate(group, state, "unhealthy")
            activity(
                group,
                f"Terminating EC2 instance: {state.instance_id}",
                f"At {now():%Y-%m-%dT%H:%M:%SZ} an instance was taken out of service in response to an EC2 health check.",
                "InProgress",
            )


def scale_in(group, surplus, why):
    """Ends as many instances as are too many: of the fullest zone, the oldest first, protected ones never."""
    for _ in range(surplus):
        zones = Counter(s.availability_zone for s in live(group))
        open_ = [s for s in live(group) if not s.protected_from_scale_in]
        if not open_:
            return
        victim = min(open_, key=lambda s: (-zones[s.availability_zone], s.instance.launch_time))
        before = len(live(group))
        start_terminate(group, victim, why)
        reason = "a difference between desired and actual capacity"
        if why == "rebalance":
            reason = "instances not being balanced over zones"
        activity(
            group,
            f"Terminating EC2 instance: {victim.instance_id}",
            f"At {now():%Y-%m-%dT%H:%M:%SZ} an instance was taken out of service in response to {reason}, "
            f"shrinking the capacity from {before} to {before - 1}.",
            "InProgress",
        )


def rebalance(group, suspended):
    """AZRebalance: one more in the emptiest zone, and when it is in service one less in the fullest."""
    wait_ms, zones = plan(group.name)["rebalance_ms"], group.availability_zones
    in_zone = Counter({zone: 0 for zone in zones})
    in_zone.update(s.availability_zone for s in live(group))
    settled = all(s.lifecycle_state == "InService" for s in live(group))
    if wait_ms is None or "AZRebalance" in suspended or max(in_zone.values()) - min(in_zone.values()) < 2 or not settled:
        UNEQUAL_SINCE.pop(group.name, None)
    elif wait_ms / 1000 <= time.monotonic() - UNEQUAL_SINCE.setdefault(group.name, time.monotonic()):
        if launch_one(group, [min(zones, key=lambda zone: in_zone[zone])]):
            UNEQUAL_SINCE[group.name] = MOVING
        else:
            del UNEQUAL_SINCE[group.name]


def reconcile(group):
    suspended = {process["ProcessName"] for process in group.suspended_processes}
    for state in [*group.instance_states, *WARM.get(group.name, [])]:
        due = DUE.get(state.instance_id)
        if due and due.at <= time.monotonic():
            step(group, state, due)
    if getattr(group, "status", None):
        if not group.instance_states:
            group.autoscaling_backend.autoscaling_groups.pop(group.name, None)
        return
    replace_unhealthy(group, suspended)
    if group.warm_pool:
        fill_warm_pool(group)
    have, want = len(live(group)), group.desired_capacity or 0
    if have <= want:
        TOO_MANY_UNTIL.pop(group.name, None)
    if have < want:
        if "Launch" in suspended:
            return
        ready_at = NEXT_TRY.get(group.name)
        if ready_at is None:
            NEXT_TRY[group.name] = after(group.name, "launch_ms")
        elif ready_at <= time.monotonic():
            for _ in range(want - have):
                if launch_one(group) is None:
                    NEXT_TRY[group.name] = after(group.name, "retry_ms")
                    return
            NEXT_TRY.pop(group.name, None)
    elif want < have:
        if "Terminate" not in suspended:
            # A rebalancing group has one more than it wants until the new one is in service.
            if UNEQUAL_SINCE.get(group.name) != MOVING:
                until = TOO_MANY_UNTIL.get(group.name) or after(group.name, "scale_in_ms")
                TOO_MANY_UNTIL[group.name] = until
                if time.monotonic() < until:
                    return
                scale_in(group, have - want, "scale-in")
            elif all(s.lifecycle_state == "InService" for s in live(group)):
                UNEQUAL_SINCE.pop(group.name)
                scale_in(group, have - want, "rebalance")
    else:
        NEXT_TRY.pop(group.name, None)
        rebalance(group, suspended)


def loop():
    while True:
        time.sleep(PERIOD_S)
        with LOCK:
            for account in list(models.autoscaling_backends.values()):
                for backend in list(account.values()):
                    for group in list(backend.autoscaling_groups.values()):
                        try:
                            reconcile(group)
                        except Exception as trouble:  # the loop outlives one broken group
                            print("failed to reconcile", group.name, repr(trouble), file=sys.stderr, flush=True)
