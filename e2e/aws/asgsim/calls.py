"""The calls of Auto Scaling that moto answers without AWS's checks, at once, or not at all. Texts are AWS's own."""

import copy
from datetime import datetime

from moto.autoscaling import models
from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult

from .launching import activity, hook_ends, TERMINATING, hook
from .reconcile import start_terminate
from .state import ACTIVITIES, DUE, GONE, NEXT_TRY, WARM, Due, live, now, plan, terminated

Backend, Group = models.AutoScalingBackend, models.FakeAutoScalingGroup


class AlreadyExists(ServiceException):
    code = "AlreadyExists"


class ResourceInUse(ServiceException):
    code = "ResourceInUse"


def find(backend, name):
    group = backend.autoscaling_groups.get(name)
    if group is None:
        raise ValidationError(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
    return group


def within_bounds(group, wanted):
    if group.max_size < wanted:
        raise ValidationError(
            f"New SetDesiredCapacity value {wanted} is above max value {group.max_size} for the AutoScalingGroup."
        )
    if wanted < group.min_size:
        raise ValidationError(
            f"New SetDesiredCapacity value {wanted} is below min value {group.min_size} for the AutoScalingGroup."
        )


def record_desired(group, wanted):
    """Only records the requested size; the reconciler acts on it."""
    group.desired_capacity = group.min_size if wanted is None else wanted


def set_desired_capacity(backend, name, wanted):
    group = find(backend, name)
    within_bounds(group, wanted)
    group.set_desired_capacity(wanted)
    NEXT_TRY.pop(name, None)


_create = Backend.create_auto_scaling_group
_update = Backend.update_auto_scaling_group


def create_auto_scaling_group(backend, name, *args, **kwargs):
    if name in backend.autoscaling_groups:
        raise AlreadyExists(
            f"AutoScalingGroup by this name already exists - A group with the name {name} already exists"
        )
    return _create(backend, name, *args, **kwargs)


def update_auto_scaling_group(backend, name, *args, **kwargs):
    """Bounds pull desired capacity with them; a mixed policy that is not named stays."""
    group = find(backend, name)
    low = group.min_size if kwargs.get("min_size") is None else kwargs["min_size"]
    high = group.max_size if kwargs.get("max_size") is None else kwargs["max_size"]
    if high < low:
        raise ValidationError(f"Min bound, {low}, must be less than or equal to max bound, {high}")
    wanted = kwargs.get("desired_capacity")
    if wanted is None:
        kwargs["desired_capacity"] = min(max(group.desired_capacity, low), high)
    elif not low <= wanted <= high:
        raise ValidationError(
            f"Desired capacity:{wanted} must be between the specified min size:{low} and max size:{high}"
        )
    policy = group.mixed_instances_policy
    NEXT_TRY.pop(name, None)
    updated = _update(backend, name, *args, **kwargs)
    if not any(kwargs.get(launch) for launch in ("mixed_instances_policy", "launch_template", "launch_config_name")):
        group.mixed_instances_policy = policy
    return updated


def state_of(backend, instance_id):
    for group in backend.autoscaling_groups.values():
        for state in group.instance_states:
            if state.instance_id == instance_id:
                return state
        if any(state.instance_id == instance_id for state in WARM.get(group.name, [])):
            raise ValidationError(f"The instance {instance_id} is in the warm pool and cannot be terminated.")
    raise ValidationError(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")


def terminate_instance(backend, instance_id, decrement):
    state = state_of(backend, instance_id)
    group = state.auto_scaling_group
    before, ending = group.desired_capacity, state.lifecycle_state in GONE
    if decrement and (not ending or plan(group.name)["decrement_twice"]):
        if before <= group.min_size:
            raise ValidationError(
                f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance without replacement "
                "will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or "
                "lower group's min size."
            )
        group.desired_capacity -= 1
    start_terminate(group, state, "request")
    asked = "a user request"
    made = activity(
        group,
        f"Terminating EC2 instance: {instance_id}",
        f"At {now():%Y-%m-%dT%H:%M:%SZ} instance {instance_id} was taken out of service in response to {asked}, "
        f"shrinking the capacity from {before} to {group.desired_capacity}.",
        "InProgress",
    )
    if instance_id in DUE:
        DUE[instance_id].activity = made
    return made


def notify_terminate_instances(backend, ids):
    """Instances ended behind the group's back: a spot interruption, a person, ec2:TerminateInstances."""
    for group in backend.autoscaling_groups.values():
        for state in group.instance_states:
            if state.instance_id in ids and state.lifecycle_state not in GONE:
                state.health_status = "Unhealthy"
                start_terminate(group, state, "outside")


def set_instance_health(backend, instance_id, health_status):
    state_of(backend, instance_id).health_status = health_status


def delete_auto_scaling_group(response):
    group = find(response.autoscaling_backend, response._get_param("AutoScalingGroupName"))
    if live(group) and not response._get_bool_param("ForceDelete", False):
        raise ResourceInUse("You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
    group.status = "Delete in progress"
    group.min_size = group.desired_capacity = 0
    for state in WARM.pop(group.name, []):
        terminated(state, "deleted")
        state.instance.terminate()
    for state in list(group.instance_states):
        start_terminate(group, state, "deleted")
    return EmptyResult()


_describe = AutoScalingResponse.describe_auto_scaling_groups


def describe_auto_scaling_groups(response):
    if 100 < len(response._get_param("AutoScalingGroupNames", []) or []):
        raise ValidationError("The number of Auto Scaling group names that may be passed in is limited to 100")
    if 100 < response._get_int_param("MaxRecords", 50):
        raise ValidationError("MaxRecords must be less than or equal to 100")
    result = _describe(response)
    with_instances = response._get_param("IncludeInstances")
    if str(with_instances).lower() == "false":
        bare = [copy.copy(group) for group in result.result["AutoScalingGroups"]]
        for group in bare:
            group.instance_states = []
        result.result["AutoScalingGroups"] = bare
    return result


def describe_scaling_activities(response):
    name, token = response._get_param("AutoScalingGroupName"), int(response._get_param("NextToken") or 0)
    size = response._get_int_param("MaxRecords", 100)
    found = list(ACTIVITIES.get(name, [])) if name else [a for own in ACTIVITIES.values() for a in own]
    if name and name not in response.autoscaling_backend.autoscaling_groups:
        if str(response._get_param("IncludeDeletedGroups")).lower() != "true":
            raise ValidationError(f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
    moment = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
    for rule in response._get_param("Filters", []) or []:
        values = rule["Values"]
        if rule["Name"] == "Status":
            found = [a for a in found if a.status_code in values]
        elif rule["Name"] == "StartTimeLowerBound":
            found = [a for a in found if moment(values[0]) <= a.start_time]
        elif rule["Name"] == "StartTimeUpperBound":
            found = [a for a in found if a.start_time < moment(values[0])]
        else:
            raise ValidationError(f"Unknown filter {rule['Name']}")
    page = found[token : token + size]
    return ActionResult({"Activities": page, "NextToken": str(token + size) if token + size < len(found) else None})


def complete_lifecycle_action(response):
    instance_id = response._get_param("InstanceId")
    abandoned = response._get_param("LifecycleActionResult") == "ABANDON"
    due = DUE.get(instance_id)
    if due is None:
        raise ValidationError(f"No active Lifecycle Action found with instance ID {instance_id}")
    step = due.step
    if step in ("up", "abandon"):
        step = "abandon" if abandoned else "up"
    DUE[instance_id] = Due(step, 0.0, due.activity)
    return ActionResult({})


def record_lifecycle_action_heartbeat(response):
    instance_id = response._get_param("InstanceId")
    state = state_of(response.autoscaling_backend, instance_id)
    known = hook(state.auto_scaling_group, TERMINATING if state.lifecycle_state in GONE else "autoscaling:EC2_INSTANCE_LAUNCHING")
    if instance_id not in DUE or known is None:
        raise ValidationError(f"No active Lifecycle Action found with instance ID {instance_id}")
    DUE[instance_id].at = hook_ends(state.auto_scaling_group, known)
    return ActionResult({})


def describe_warm_pool(response):
    group = find(response.autoscaling_backend, response._get_param("AutoScalingGroupName"))
    instances = [] if group.warm_pool is None else WARM.get(group.name, [])
    return ActionResult({"WarmPoolConfiguration": group.warm_pool, "Instances": instances})


def delete_warm_pool(response):
    group = find(response.autoscaling_backend, response._get_param("AutoScalingGroupName"))
    for state in WARM.pop(group.name, []):
        DUE.pop(state.instance_id, None)
        state.instance.terminate()
    group.warm_pool = None
    return EmptyResult()


Group.set_desired_capacity = record_desired
Group.status = None
Group.warm_pool_size = property(lambda group: len(WARM.get(group.name, [])) if group.warm_pool else None)
Backend.set_desired_capacity = set_desired_capacity
Backend.create_auto_scaling_group = create_auto_scaling_group
Backend.update_auto_scaling_group = update_auto_scaling_group
Backend.terminate_instance = terminate_instance
Backend.notify_terminate_instances = notify_terminate_instances
Backend.set_instance_health = set_instance_health
AutoScalingResponse.delete_auto_scaling_group = delete_auto_scaling_group
AutoScalingResponse.describe_auto_scaling_groups = describe_auto_scaling_groups
AutoScalingResponse.describe_scaling_activities = describe_scaling_activities
AutoScalingResponse.complete_lifecycle_action = complete_lifecycle_action
AutoScalingResponse.record_lifecycle_action_heartbeat = record_lifecycle_action_heartbeat
AutoScalingResponse.describe_warm_pool = describe_warm_pool
AutoScalingResponse.delete_warm_pool = delete_warm_pool
