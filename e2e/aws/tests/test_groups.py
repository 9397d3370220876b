"""Launching, ending and counting instances, and the calls that AWS refuses."""

import json
import unittest
from collections import Counter

from .bed import NEVER, OUT_OF_CAPACITY, ZONES, Case


class Groups(Case):
    def test_launches_are_asynchronous_and_balanced_over_zones(self):
        self.plan(launch_ms=NEVER)
        self.group(zones=ZONES)
        self.set_desired(4)
        self.assertEqual((self.state()["DesiredCapacity"], self.ids()), (4, []))
        self.plan()
        self.set_desired(4)
        self.in_service(4)
        zones = Counter(i["AvailabilityZone"] for i in self.instances())
        self.assertEqual(sorted(zones.values()), [1, 1, 2])
        self.assertEqual([a["StatusCode"] for a in self.activities()], ["Successful"] * 4)

    def test_calls_outside_the_bounds_are_refused(self):
        self.group(desired=2, least=2, most=3)
        ids = self.in_service(2)
        with self.refused("ValidationError", "above max value 3"):
            self.set_desired(4)
        with self.refused("ValidationError", "below min value 2"):
            self.set_desired(1)
        with self.refused("ValidationError", "desiredSize equals minSize (2)"):
            self.terminate(ids[0])
        with self.refused("ValidationError", "between the specified min size:2 and max size:3"):
            self.api.update_auto_scaling_group(AutoScalingGroupName=self.name, DesiredCapacity=9)
        self.assertEqual(self.in_service(2), ids)

    def test_unknown_and_known_names_are_refused(self):
        self.group()
        with self.refused("AlreadyExists", self.name):
            self.group()
        with self.refused("ValidationError", "not found"):
            self.api.set_desired_capacity(AutoScalingGroupName="nobody", DesiredCapacity=1)
        with self.refused("ValidationError", "not found"):
            self.api.describe_scaling_activities(AutoScalingGroupName="nobody")
        with self.refused("ValidationError", "No managed instance found"):
            self.terminate("i-0123456789abcdef0")

    def test_a_terminated_instance_goes_by_degrees_and_lowers_desired_once(self):
        self.plan(terminate_ms=3000)
        self.group(desired=2)
        first, second = self.in_service(2)
        activity = self.terminate(first)["Activity"]
        self.assertIn(first, activity["Description"])
        self.assertEqual((self.state()["DesiredCapacity"], self.ids("Terminating")), (1, [first]))
        self.terminate(first)
        self.assertEqual(self.state()["DesiredCapacity"], 1)
        self.until("it is gone", lambda: self.ids() == [second])
        found = self.ec2.describe_instances(InstanceIds=[first])["Reservations"][0]["Instances"][0]
        self.assertEqual(found["State"]["Name"], "terminated")
        self.assertEqual([(t["id"], t["why"]) for t in self.terminations()], [(first, "request")])

    def test_a_second_terminate_can_lower_desired_again(self):
        self.plan(terminate_ms=NEVER, decrement_twice=True)
        self.group(desired=3)
        first = self.in_service(3)[0]
        self.terminate(first)
        self.terminate(first)
        self.assertEqual(self.state()["DesiredCapacity"], 1)

    def test_terminate_without_decrement_replaces(self):
        self.group(desired=1, least=1)
        old = self.in_service(1)
        self.terminate(old[0], decrement=False)
        self.until("another one is in service", lambda: self.ids("InService") not in (old, []))
        self.assertEqual(self.state()["DesiredCapacity"], 1)

    def test_lowering_desired_ends_working_instances_but_no_protected_one(self):
        self.group(desired=3)
        protected = self.in_service(3)[0]
        self.api.set_instance_protection(
            AutoScalingGroupName=self.name, InstanceIds=[protected], ProtectedFromScaleIn=True
        )
        self.set_desired(0)
        self.until("one is left", lambda: self.ids() == [protected])
        self.assertEqual({t["why"] for t in self.terminations()}, {"scale-in"})

    def test_what_is_ended_outside_or_unhealthy_is_replaced(self):
        self.group(desired=2)
        first, second = self.in_service(2)
        self.ec2.terminate_instances(InstanceIds=[first])
        self.api.set_instance_health(InstanceId=second, HealthStatus="Unhealthy")
        self.until("both are replaced", lambda: not {first, second} & set(self.ids()) and len(self.ids("InService")) == 2)
        self.assertEqual({t["id"]: t["why"] for t in self.terminations()}, {first: "outside", second: "unhealthy"})

    def test_suspended_processes_do_nothing(self):
        self.group(desired=1)
        own = self.in_service(1)
        self.api.suspend_processes(
            AutoScalingGroupName=self.name, ScalingProcesses=["Launch", "Terminate", "ReplaceUnhealthy"]
        )
        self.set_desired(3)
        self.api.set_instance_health(InstanceId=own[0], HealthStatus="Unhealthy")
        # The group goes on only after this one, which would be served in the same round.
        self.group(self.name + "-other", desired=1)
        self.until("the other is served", lambda: self.instances("InService", self.name + "-other"))
        self.assertEqual(self.ids(), own)

    def test_a_deleted_group_goes_by_degrees(self):
        self.plan(terminate_ms=3000)
        self.group(desired=1)
        self.in_service(1)
        with self.refused("ResourceInUse", "instances"):
            self.api.delete_auto_scaling_group(AutoScalingGroupName=self.name)
        self.api.delete_auto_scaling_group(AutoScalingGroupName=self.name, ForceDelete=True)
        self.assertEqual(self.state()["Status"], "Delete in progress")
        names = [self.name]
        describe = self.api.describe_auto_scaling_groups
        self.until("it is gone", lambda: not describe(AutoScalingGroupNames=names)["AutoScalingGroups"])

    def test_group_descriptions_are_limited_and_can_leave_instances_out(self):
        self.group(desired=1)
        self.in_service(1)
        describe = self.api.describe_auto_scaling_groups
        with self.refused("ValidationError", "limited to 100"):
            describe(AutoScalingGroupNames=[f"g{n}" for n in range(101)])
        with self.refused("ValidationError", "MaxRecords"):
            describe(MaxRecords=101)
        bare = describe(AutoScalingGroupNames=[self.name], IncludeInstances=False)["AutoScalingGroups"][0]
        self.assertEqual((bare["DesiredCapacity"], bare["Instances"]), (1, []))
        self.assertEqual(len(self.ids()), 1, "the group itself keeps them")

    def test_a_hand_edit_keeps_the_mixed_policy_and_moves_desired_with_the_bounds(self):
        template = {"LaunchTemplateSpecification": {"LaunchTemplateName": "web"}, "Overrides": [{"InstanceType": "r5.large"}]}
        spot = {"OnDemandPercentageAboveBaseCapacity": 0, "OnDemandBaseCapacity": 0}
        self.group(MixedInstancesPolicy={"LaunchTemplate": template, "InstancesDistribution": spot})
        self.api.update_auto_scaling_group(AutoScalingGroupName=self.name, MinSize=1)
        instance = self.in_service(1)[0]
        self.assertIn("MixedInstancesPolicy", self.state())
        found = self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        self.assertEqual((found["InstanceType"], found["InstanceLifecycle"]), ("r5.large", "spot"))

    def test_instances_keep_the_template_version_they_were_launched_from(self):
        latest = {"LaunchTemplateName": "web", "Version": "$Latest"}
        self.group(desired=1)
        self.in_service(1)
        self.api.update_auto_scaling_group(AutoScalingGroupName=self.name, LaunchTemplate=latest, DesiredCapacity=2)
        self.in_service(2)
        launched = {(i["LaunchTemplate"]["Version"], i["InstanceType"]) for i in self.instances()}
        self.assertEqual(launched, {("1", "m5.xlarge"), ("2", "c5.2xlarge")})


class Failures(Case):
    def test_a_failed_launch_is_reported_retried_and_mended(self):
        self.plan(fail=OUT_OF_CAPACITY, retry_ms=200)
        self.group(desired=2)
        failed = self.until("a launch fails", self.activities)[-1]
        self.assertEqual(failed["StatusCode"], "Failed")
        self.assertTrue(failed["StatusMessage"].startswith(OUT_OF_CAPACITY["message"]), failed["StatusMessage"])
        self.assertEqual(json.loads(failed["Details"])["Availability Zone"], ZONES[0])
        self.assertEqual((self.state()["DesiredCapacity"], self.ids()), (2, []))
        self.plan(retry_ms=200)
        self.in_service(2)
        only = [{"Name": "Status", "Values": ["Successful"]}]
        self.assertEqual(len(self.activities(Filters=only)), 2)
        since = [{"Name": "StartTimeLowerBound", "Values": ["2999-01-01T00:00:00Z"]}]
        self.assertEqual(self.activities(Filters=since), [])

    def test_another_zone_is_tried_first(self):
        self.plan(fail={**OUT_OF_CAPACITY, "azs": [ZONES[0]]})
        self.group(zones=ZONES[:2], desired=2)
        self.in_service(2)
        self.assertEqual({i["AvailabilityZone"] for i in self.instances()}, {ZONES[1]})
        self.assertIn("Failed", [a["StatusCode"] for a in self.activities()])

    def test_a_failure_can_be_of_one_market_and_counted(self):
        self.plan(fail={**OUT_OF_CAPACITY, "market": "Spot"})
        self.group(desired=1)
        self.in_service(1)
        self.plan(fail={**OUT_OF_CAPACITY, "count": 1}, retry_ms=100)
        self.set_desired(2)
        self.in_service(2)
        self.assertEqual([a["StatusCode"] for a in self.activities()].count("Failed"), 1)

    def test_jitter_is_drawn_from_the_seed(self):
        from asgsim import state

        def waits():
            state.reset()
            state.PLANS["g"] = {"launch_ms": 0, "jitter_ms": 1000, "seed": 7}
            drawn = [state.after("g", "launch_ms") - state.time.monotonic() for _ in range(3)]
            return [round(wait, 2) for wait in drawn]

        first = waits()
        self.assertEqual(first, waits())
        self.assertLess(1, len(set(first)))


class Hooks(Case):
    def hooked(self, transition, result="CONTINUE"):
        self.plan(hook_ms=NEVER)
        self.group()
        self.api.put_lifecycle_hook(
            AutoScalingGroupName=self.name,
            LifecycleHookName="ready",
            LifecycleTransition=f"autoscaling:EC2_INSTANCE_{transition}",
            DefaultResult=result,
        )

    def complete(self, instance_id, result):
        self.api.complete_lifecycle_action(
            AutoScalingGroupName=self.name,
            LifecycleHookName="ready",
            LifecycleActionResult=result,
            InstanceId=instance_id,
        )

    def test_a_launch_waits_for_its_hook(self):
        self.hooked("LAUNCHING")
        self.set_desired(2)
        self.until("two wait", lambda: len(self.ids("Pending:Wait")) == 2)
        self.assertEqual({a["StatusCode"] for a in self.activities()}, {"MidLifecycleAction"})
        first, second = self.ids()
        self.complete(first, "CONTINUE")
        self.complete(second, "ABANDON")
        self.until("one works, one goes", lambda: self.ids("InService") == [first] and second not in self.ids())
        self.assertIn("Cancelled", [a["StatusCode"] for a in self.activities()])

    def test_a_termination_waits_for_its_hook(self):
        self.hooked("TERMINATING")
        self.set_desired(1)
        own = self.in_service(1)[0]
        self.terminate(own)
        self.assertEqual(self.ids("Terminating:Wait"), [own])
        self.complete(own, "CONTINUE")
        self.until("it is gone", lambda: not self.ids())

    def test_a_hook_that_nobody_answers_ends_by_its_default(self):
        self.hooked("LAUNCHING", "ABANDON")
        self.plan(hook_ms=100)
        self.set_desired(1)
        self.until("a launch is given up", lambda: [t for t in self.terminations() if t["why"] == "hook"])


class Pools(Case):
    def warm(self, **more):
        self.group(most=3)
        self.api.put_warm_pool(AutoScalingGroupName=self.name, MinSize=1, MaxGroupPreparedCapacity=2, **more)
        pool = lambda: self.api.describe_warm_pool(AutoScalingGroupName=self.name)["Instances"]
        states = lambda: [i["LifecycleState"] for i in pool()]
        self.until("the pool is filled", lambda: states() == ["Warmed:Stopped"] * 2)
        return pool

    def test_a_warm_pool_is_apart_from_the_group_and_serves_it(self):
        pool = self.warm()
        group = self.state()
        self.assertEqual((group["WarmPoolSize"], group["DesiredCapacity"], group["Instances"]), (2, 0, []))
        prepared = {i["InstanceId"] for i in pool()}
        with self.refused("ValidationError", "warm pool"):
            self.terminate(min(prepared))
        self.set_desired(1)
        self.assertTrue(set(self.in_service(1)) <= prepared)

    def test_a_pool_takes_back_what_it_may_use_again(self):
        pool = self.warm(InstanceReusePolicy={"ReuseOnScaleIn": True})
        self.set_desired(1)
        own = self.in_service(1)[0]
        self.terminate(own)
        self.until("it is warm again", lambda: own in [i["InstanceId"] for i in pool()])
        self.assertEqual(self.ids(), [])


class Described(Case):
    def test_described_types_are_within_their_bounds_and_differ(self):
        described = {"VCpuCount": {"Min": 4, "Max": 8}, "MemoryMiB": {"Min": 16384}}
        specification = {"LaunchTemplateName": "web", "Version": "$Default"}
        launch = {"LaunchTemplateSpecification": specification, "Overrides": [{"InstanceRequirements": described}]}
        self.group(desired=4, MixedInstancesPolicy={"LaunchTemplate": launch})
        self.in_service(4)
        found = {i["InstanceType"] for i in self.instances()}
        self.assertLess(1, len(found))
        for kind in self.ec2.describe_instance_types(InstanceTypes=sorted(found))["InstanceTypes"]:
            self.assertIn(kind["VCpuInfo"]["DefaultVCpus"], range(4, 9))
            self.assertLessEqual(16384, kind["MemoryInfo"]["SizeInMiB"])
        overrides = self.state()["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"]
        self.assertEqual(overrides[0]["InstanceRequirements"]["VCpuCount"]["Min"], 4)


class Zones(Case):
    def test_unequal_zones_are_made_equal_by_ending_working_instances(self):
        self.plan(rebalance_ms=100, fail={**OUT_OF_CAPACITY, "azs": [ZONES[1]]})
        self.group(zones=ZONES[:2], desired=2)
        old = self.in_service(2)
        self.plan(rebalance_ms=100)
        per_zone = lambda: Counter(i["AvailabilityZone"] for i in self.instances("InService"))
        self.until("zones are equal", lambda: sorted(per_zone().values()) == [1, 1] and len(self.ids()) == 2)
        ended = self.terminations()
        self.assertEqual([t["why"] for t in ended], ["rebalance"])
        self.assertIn(ended[0]["id"], old)

    def test_without_azrebalance_they_stay(self):
        self.plan(rebalance_ms=0, fail={**OUT_OF_CAPACITY, "azs": [ZONES[1]]})
        self.group(zones=ZONES[:2])
        self.api.suspend_processes(AutoScalingGroupName=self.name, ScalingProcesses=["AZRebalance"])
        self.set_desired(2)
        old = self.in_service(2)
        self.plan(rebalance_ms=0)
        self.group(self.name + "-other", desired=1)
        self.until("the other is served", lambda: self.instances("InService", self.name + "-other"))
        self.assertEqual((self.ids(), self.terminations()), (old, []))


if __name__ == "__main__":
    unittest.main()
