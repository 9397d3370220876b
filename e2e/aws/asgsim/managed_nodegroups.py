"""An EKS managed node group brings its Auto Scaling group, as EKS does and moto does not."""

from moto.autoscaling.models import autoscaling_backends
from moto.ec2.models import ec2_backends
from moto.eks.models import EKSBackend

_create = EKSBackend.create_nodegroup


def create_nodegroup(backend, **kwargs):
    made = _create(backend, **kwargs)
    ec2 = ec2_backends[backend.account_id][backend.region_name]
    name = made.resources["autoScalingGroups"][0]["name"]
    template = ec2.create_launch_template(
        name=name,
        description="made by EKS",
        template_data={"ImageId": "ami-03cf127a", "InstanceType": made.instance_types[0]},
        tag_spec={},
    )
    cluster = made.cluster_name
    tags = {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": made.nodegroup_name,
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster}": "owned",
        f"kubernetes.io/cluster/{cluster}": "owned",
    }
    sizes = made.scaling_config
    autoscaling_backends[backend.account_id][backend.region_name].create_auto_scaling_group(
        name=name,
        availability_zones=[],
        desired_capacity=sizes["desiredSize"],
        max_size=sizes["maxSize"],
        min_size=sizes["minSize"],
        instance_id=None,
        launch_config_name=None,
        launch_template={"LaunchTemplateId": template.id, "Version": "1"},
        vpc_zone_identifier=",".join(made.subnets),
        default_cooldown=None,
        health_check_period=None,
        health_check_type=None,
        load_balancers=[],
        target_group_arns=[],
        placement_group=None,
        termination_policies=[],
        tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
        capacity_rebalance=True,
    )
    return made


EKSBackend.create_nodegroup = create_nodegroup
