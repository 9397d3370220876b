"""LaunchInstances: synchronous launches with typed errors, safe to repeat by client token."""

from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult

from .calls import find
from .launching import failed, failure, shape, start, subnets
from .state import TOKENS

MAX_PER_CALL = 100


class IdempotentParameterMismatch(ServiceException):
    code = "IdempotentParameterMismatch"


def launch_instances(response):
    group = find(response.autoscaling_backend, response._get_param("AutoScalingGroupName"))
    count, token = response._get_int_param("RequestedCapacity"), response._get_param("ClientToken")
    zones = list(response._get_param("AvailabilityZones", []) or [])
    by_subnet = {subnet: zone for zone, subnet in subnets(group).items()}
    for subnet in response._get_param("SubnetIds", []) or []:
        if subnet not in by_subnet:
            raise ValidationError(f"The subnet ID {subnet} is not one of the Auto Scaling group's subnets.")
        zones.append(by_subnet[subnet])
    strategy = response._get_param("RetryStrategy") or "none"

    asked = (count, tuple(zones), strategy)
    if (group.name, token) in TOKENS:
        before, answer = TOKENS[group.name, token]
        if before != asked:
            raise IdempotentParameterMismatch("The client token was used before with other parameters.")
        return ActionResult(answer)
    validate(group, count, token, zones, strategy)

    zone = (zones or group.availability_zones)[0]
    launched, errors = {}, []
    for _ in range(count):
        kind, market = shape(group)
        fail = failure(group, zone, kind, market)
        if fail is None:
            launched.setdefault((kind, market), []).append(start(group, zone, kind, market).instance_id)
            group.desired_capacity += 1
        else:
            failed(group, zone, market, fail)
            error = {"InstanceType": kind, "MarketType": market, "AvailabilityZone": zone}
            errors.append({**error, "ErrorCode": fail["code"], "ErrorMessage": fail["message"]})
    if strategy == "retry-with-group-configuration":
        # What failed is wanted all the same: the group goes on by itself, in all its zones.
        group.desired_capacity += len(errors)
    instances = [
        {"InstanceType": kind, "MarketType": market, "AvailabilityZone": zone, "InstanceIds": ids}
        for (kind, market), ids in launched.items()
    ]
    answer = {"AutoScalingGroupName": group.name, "ClientToken": token, "Instances": instances, "Errors": errors}
    TOKENS[group.name, token] = (asked, answer)
    return ActionResult(answer)


def validate(group, count, token, zones, strategy):
    if not token:
        raise ValidationError("1 validation error detected: Value null at 'clientToken' failed to satisfy constraint")
    if not 1 <= count <= MAX_PER_CALL:
        raise ValidationError(f"RequestedCapacity must be between 1 and {MAX_PER_CALL}")
    if strategy not in ("none", "retry-with-group-configuration"):
        raise ValidationError(f"Unknown RetryStrategy {strategy}")
    if not group.ec2_launch_template:
        raise ValidationError("LaunchInstances requires an Auto Scaling group with a launch template.")
    if group.mixed_instances_policy:
        distribution = group.mixed_instances_policy.get("InstancesDistribution") or {}
        above = int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))
        if above not in (0, 100) or (above == 0 and int(distribution.get("OnDemandBaseCapacity", 0)) != 0):
            raise ValidationError("LaunchInstances requires a mixed instances policy of one purchase option.")
    if 1 < len(group.availability_zones) and len(zones) != 1:
        raise ValidationError("An Availability Zone or subnet must be specified for a group with several zones.")
    if any(zone not in group.availability_zones for zone in zones):
        raise ValidationError(f"The Availability Zone {zones[0]} is not one of the Auto Scaling group's.")
    if group.max_size < group.desired_capacity + count:
        raise ValidationError(f"Requested capacity would exceed max value {group.max_size} of the Auto Scaling group.")
    if any(process["ProcessName"] == "Launch" for process in group.suspended_processes):
        raise ValidationError("The Launch process of the Auto Scaling group is suspended.")


AutoScalingResponse.launch_instances = launch_instances
