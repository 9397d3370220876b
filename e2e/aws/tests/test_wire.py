"""LaunchInstances, faults of the API, the counter, managed node groups and permissions."""

import json
import threading
import unittest
import urllib.error
from datetime import datetime, timezone

from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from .bed import OUT_OF_CAPACITY, ZONES, Case


class LaunchInstances(Case):
    def launch(self, count, token, zone=ZONES[1], **more):
        return self.api.launch_instances(
            AutoScalingGroupName=self.name,
            RequestedCapacity=count,
            ClientToken=token,
            AvailabilityZones=[zone],
            **more,
        )

    def test_the_answer_names_the_instances_and_a_token_buys_once(self):
        self.group(zones=ZONES)
        first = self.launch(2, "one")
        ids = first["Instances"][0]["InstanceIds"]
        self.assertEqual((len(ids), first["Instances"][0]["AvailabilityZone"], first["Errors"]), (2, ZONES[1], []))
        self.assertEqual(self.launch(2, "one")["Instances"], first["Instances"])
        self.assertEqual(self.state()["DesiredCapacity"], 2)
        self.assertEqual(sorted(self.in_service(2)), sorted(ids))
        with self.refused("IdempotentParameterMismatch", "token"):
            self.launch(3, "one")

    def test_a_failed_part_is_typed_and_leaves_desired_alone(self):
        self.plan(fail={**OUT_OF_CAPACITY, "azs": [ZONES[1]]})
        self.group(zones=ZONES)
        answer = self.launch(1, "one")
        error = answer["Errors"][0]
        self.assertEqual((error["ErrorCode"], error["AvailabilityZone"]), (OUT_OF_CAPACITY["code"], ZONES[1]))
        self.assertEqual((answer["Instances"], self.state()["DesiredCapacity"]), ([], 0))

    def test_with_retries_the_group_goes_on_by_itself(self):
        self.plan(fail={**OUT_OF_CAPACITY, "azs": [ZONES[1]]})
        self.group(zones=ZONES)
        answer = self.launch(1, "one", RetryStrategy="retry-with-group-configuration")
        self.assertEqual((len(answer["Errors"]), self.state()["DesiredCapacity"]), (1, 1))
        self.in_service(1)

    def test_what_the_group_does_not_allow_is_refused(self):
        self.group(zones=ZONES, most=2)
        with self.refused("ValidationError", "exceed max value 2"):
            self.launch(3, "one")
        with self.refused("ValidationError", "must be specified"):
            self.api.launch_instances(AutoScalingGroupName=self.name, RequestedCapacity=1, ClientToken="two")
        with self.refused("ValidationError", "not one of"):
            self.launch(1, "three", zone="us-east-1f")


class Faults(Case):
    def test_a_fault_strikes_the_calls_it_names_and_no_other(self):
        self.group()
        throttled = {"service": "autoscaling", "action": "SetDesiredCapacity", "code": "Throttling", "skip": 1}
        limited = {"service": "ec2", "action": "DescribeInstances", "code": "RequestLimitExceeded", "status": 503}
        self.faults({**throttled, "group": self.name, "message": "Rate exceeded"}, limited)
        self.set_desired(0)
        with self.refused("Throttling", "Rate exceeded"):
            self.set_desired(1)
        with self.refused("RequestLimitExceeded") as refused:
            self.ec2.describe_instances()
        self.assertEqual(refused.error["ResponseMetadata"]["HTTPStatusCode"], 503)
        self.set_desired(1)
        self.in_service(1)

    def test_a_call_can_take_effect_and_be_answered_with_an_error(self):
        self.group()
        self.faults({"action": "SetDesiredCapacity", "code": "InternalFailure", "status": 500, "commit": True})
        with self.refused("InternalFailure"):
            self.set_desired(1)
        self.assertEqual(self.state()["DesiredCapacity"], 1)

    def test_a_call_can_take_effect_without_an_answer_or_with_a_late_one(self):
        self.group()
        self.faults({"action": "SetDesiredCapacity", "drop": True, "commit": True})
        with self.assertRaises(ConnectionClosedError):
            self.set_desired(1)
        self.assertEqual(self.state()["DesiredCapacity"], 1)
        self.faults({"action": "SetDesiredCapacity", "commit": True, "latency_ms": 2000})
        hasty = self.sim.client("autoscaling", timeout=0.5)
        with self.assertRaises(ReadTimeoutError):
            hasty.set_desired_capacity(AutoScalingGroupName=self.name, DesiredCapacity=2)
        self.until("it has taken effect", lambda: self.state()["DesiredCapacity"] == 2)

    def test_a_call_can_be_lost_without_effect(self):
        self.group()
        self.faults({"action": "SetDesiredCapacity", "drop": True})
        with self.assertRaises(ConnectionClosedError):
            self.set_desired(1)
        self.assertEqual(self.state()["DesiredCapacity"], 0)

    def test_a_call_that_sleeps_through_a_reset_is_neither_done_nor_logged(self):
        self.group()
        self.faults({"action": "SetDesiredCapacity", "latency_ms": 2000})
        outcomes = []

        def write():
            try:
                self.set_desired(1)
            except ClientError as refused:
                outcomes.append(refused.response["ResponseMetadata"]["HTTPStatusCode"])

        sleeper = threading.Thread(target=write)
        # Calls of earlier tests are not this one.
        self.sim.control("DELETE", "calls")
        sleeper.start()
        self.until("the call has come", lambda: "autoscaling:SetDesiredCapacity" in self.sim.control("GET", "calls"))
        self.sim.control("POST", "reset")
        sleeper.join()
        self.assertEqual(outcomes, [500])
        self.assertEqual(self.state()["DesiredCapacity"], 0)
        calls = [entry["call"] for entry in self.sim.control("GET", "log")]
        self.assertNotIn("autoscaling:SetDesiredCapacity", calls)

    def test_two_writes_at_once_contend(self):
        self.plan(write_ms=500)
        self.group()
        outcomes = []

        def write(wanted):
            try:
                self.set_desired(wanted)
                outcomes.append(None)
            except ClientError as refused:
                outcomes.append(refused.response)

        writers = [threading.Thread(target=write, args=(wanted,)) for wanted in (1, 2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        refusals = [outcome for outcome in outcomes if outcome]
        self.assertEqual([r["Error"]["Code"] for r in refusals], ["ResourceContention"])
        self.assertEqual(refusals[0]["ResponseMetadata"]["HTTPStatusCode"], 500)

    def test_calls_are_counted_by_key_and_logged_in_order(self):
        self.group()
        other = self.sim.client("autoscaling", key=f"key-of-{self.name}")
        other.describe_auto_scaling_groups()
        other.set_desired_capacity(AutoScalingGroupName=self.name, DesiredCapacity=1)
        counted = self.sim.control("GET", f"calls/key-of-{self.name}")
        self.assertEqual(
            counted, {"autoscaling:DescribeAutoScalingGroups": 1, "autoscaling:SetDesiredCapacity": 1}
        )
        last = self.sim.control("GET", f"log/key-of-{self.name}")[-1]
        self.assertEqual((last["params"]["DesiredCapacity"], last["status"]), ("1", "200"))

    def test_a_plan_with_an_unknown_word_is_refused(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.plan(pending_s=1)
        self.assertIn("pending_s", json.loads(refused.exception.read())["error"])
        refused.exception.close()


class Machines(Case):
    def test_instances_describe_their_machine(self):
        self.group(desired=1)
        own = self.in_service(1)[0]
        found = next(i for i in self.sim.control("GET", "instances") if i["id"] == own)
        machine = {key: found[key] for key in ("zone", "type", "cpu", "memory_mib", "arch", "gpus", "state")}
        wanted = {"zone": ZONES[0], "type": "m5.xlarge", "cpu": 4, "memory_mib": 16384, "arch": "x86_64", "gpus": 0}
        self.assertEqual(machine, {**wanted, "state": "running"})

    def test_a_managed_node_group_brings_its_group(self):
        eks = self.sim.client("eks")
        subnets = [self.sim.subnets[ZONES[0]]]
        role = "arn:aws:iam::123456789012:role/eks"
        eks.create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
        sizes = {"minSize": 0, "maxSize": 4, "desiredSize": 1}
        made = eks.create_nodegroup(
            clusterName="prod",
            nodegroupName="spot",
            subnets=subnets,
            nodeRole=role,
            scalingConfig=sizes,
            instanceTypes=["m5.large"],
            labels={"tier": "web"},
            taints=[{"key": "dedicated", "effect": "NO_SCHEDULE"}],
        )
        name = made["nodegroup"]["resources"]["autoScalingGroups"][0]["name"]
        group = self.state(name)
        tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
        self.assertEqual(tags["eks:nodegroup-name"], "spot")
        self.assertEqual((group["MaxSize"], group["DesiredCapacity"]), (4, 1))
        self.until("it is in service", lambda: self.instances("InService", name))


class Permissions(Case):
    def test_a_key_may_do_what_its_policy_says(self):
        iam = self.sim.client("iam")
        iam.create_user(UserName="headroom")
        statement = {"Effect": "Allow", "Action": ["autoscaling:DescribeAutoScalingGroups"], "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName="headroom", PolicyName="least", PolicyDocument=policy)
        made = iam.create_access_key(UserName="headroom")["AccessKey"]
        import boto3

        own = boto3.client(
            "autoscaling",
            endpoint_url=self.sim.url,
            region_name="us-east-1",
            aws_access_key_id=made["AccessKeyId"],
            aws_secret_access_key=made["SecretAccessKey"],
        )
        self.enforce("0")
        try:
            own.describe_auto_scaling_groups()
            with self.refused("AccessDenied", "autoscaling:SetDesiredCapacity"):
                own.set_desired_capacity(AutoScalingGroupName="any", DesiredCapacity=1)
        finally:
            self.enforce("inf")

    def enforce(self, after):
        import urllib.request

        url = f"{self.sim.url}/moto-api/reset-auth"
        request = urllib.request.Request(url, method="POST", data=after.encode(), headers={"Content-Type": "text/plain"})
        urllib.request.urlopen(request).close()


if __name__ == "__main__":
    unittest.main()


class SpotPrices(Case):
    def history(self, **more):
        return self.ec2.describe_spot_price_history(
            InstanceTypes=["m5.xlarge"], ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"], **more
        )

    def test_the_present_prices_are_one_for_each_zone_and_the_history_has_all(self):
        before = {p["AvailabilityZone"]: p["SpotPrice"] for p in self.present()}
        self.assertTrue(set(ZONES) <= set(before), before)
        self.sim.control("PUT", "spot-prices", {"m5.xlarge": {ZONES[0]: "0.071000"}})
        self.sim.control("PUT", "spot-prices", {"m5.xlarge": {ZONES[0]: "0.073000"}})
        after = {p["AvailabilityZone"]: p["SpotPrice"] for p in self.present()}
        self.assertEqual((after[ZONES[0]], after[ZONES[1]]), ("0.073000", before[ZONES[1]]))
        own = [p["SpotPrice"] for p in self.history()["SpotPriceHistory"] if p["AvailabilityZone"] == ZONES[0]]
        self.assertEqual(own[:2], ["0.073000", "0.071000"])

    def present(self):
        # Times are whole seconds on the wire, and a price that was set in this one holds.
        moment = datetime.now(timezone.utc).replace(microsecond=0)
        return self.history(StartTime=moment, EndTime=moment)["SpotPriceHistory"]

    def test_answers_come_in_pages_and_the_last_has_an_empty_token(self):
        moment = datetime.now(timezone.utc)
        asked = {"StartTime": moment, "EndTime": moment, "MaxResults": 3}
        first = self.ec2.describe_spot_price_history(InstanceTypes=["m5.large"], **asked)
        self.assertEqual(len(first["SpotPriceHistory"]), 3)
        second = self.ec2.describe_spot_price_history(InstanceTypes=["m5.large"], NextToken=first["NextToken"], **asked)
        zones = [p["AvailabilityZone"] for p in first["SpotPriceHistory"] + second["SpotPriceHistory"]]
        self.assertEqual((len(zones), len(set(zones)), second["NextToken"]), (5, 5, ""))
