"""The bed of the tests: one simulator, boto3 clients that retry nothing, waiting for conditions."""

import json
import os
import subprocess
import sys
import time
import unittest
import urllib.request
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

HERE = Path(__file__).resolve().parent.parent
# In a plan: longer than any test.
NEVER = 3_600_000
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
OUT_OF_CAPACITY = {"code": "InsufficientInstanceCapacity", "message": "We currently do not have sufficient capacity."}


class Simulator:
    def __init__(self):
        env = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "asgsim", "--port", "0"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        try:
            self.set_up()
        except BaseException:
            self.end()
            raise

    def set_up(self):
        self.url = "http://127.0.0.1:" + self.process.stdout.readline().split()[-1]
        self.autoscaling, self.ec2 = self.client("autoscaling"), self.client("ec2")
        subnets = self.ec2.describe_subnets()["Subnets"]
        self.subnets = {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in subnets}
        for kind in ("m5.xlarge", "c5.2xlarge"):
            data = {"ImageId": "ami-03cf127a", "InstanceType": kind}
            make = self.ec2.create_launch_template if kind == "m5.xlarge" else self.ec2.create_launch_template_version
            make(LaunchTemplateName="web", LaunchTemplateData=data)

    def client(self, service, key="testing", timeout=60):
        config = Config(retries={"max_attempts": 0}, read_timeout=timeout)
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key="testing",
            config=config,
        )

    def control(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_sim/{path}", method=method, data=data)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


SIMULATOR = None


class Case(unittest.TestCase):
    """A test with the simulator; its groups are named after it."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        global SIMULATOR
        if SIMULATOR is None:
            SIMULATOR = Simulator()

    def setUp(self):
        self.sim, self.name = SIMULATOR, self._testMethodName
        self.api, self.ec2 = self.sim.autoscaling, self.sim.ec2
        self.sim.control("POST", "faults", [])

    def group(self, name=None, zones=ZONES[:1], desired=0, least=0, most=6, **more):
        name = name or self.name
        launch = {} if "MixedInstancesPolicy" in more else {"LaunchTemplate": {"LaunchTemplateName": "web"}}
        self.api.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=least,
            MaxSize=most,
            DesiredCapacity=desired,
            VPCZoneIdentifier=",".join(self.sim.subnets[zone] for zone in zones),
            **launch,
            **more,
        )
        return name

    def plan(self, **plan):
        self.sim.control("PUT", f"groups/{self.name}", plan)

    def faults(self, *faults):
        self.sim.control("POST", "faults", list(faults))

    def state(self, name=None):
        names = [name or self.name]
        return self.api.describe_auto_scaling_groups(AutoScalingGroupNames=names)["AutoScalingGroups"][0]

    def instances(self, lifecycle=None, name=None):
        found = self.state(name)["Instances"]
        return [i for i in found if lifecycle in (None, i["LifecycleState"])]

    def ids(self, lifecycle=None):
        return [i["InstanceId"] for i in self.instances(lifecycle)]

    def activities(self, **more):
        return self.api.describe_scaling_activities(AutoScalingGroupName=self.name, **more)["Activities"]

    def terminations(self):
        return [t for t in self.sim.control("GET", "terminations") if t["group"] == self.name]

    def set_desired(self, wanted):
        self.api.set_desired_capacity(AutoScalingGroupName=self.name, DesiredCapacity=wanted)

    def terminate(self, instance_id, decrement=True):
        return self.api.terminate_instance_in_auto_scaling_group(
            InstanceId=instance_id, ShouldDecrementDesiredCapacity=decrement
        )

    def refused(self, code, *words):
        """A context in which the call is answered with this code and these words in its message."""
        return Refused(self, code, words)

    def until(self, what, probe, seconds=30):
        """Waits until the probe's value is true, and returns it."""
        end = time.monotonic() + seconds
        while True:
            found = probe()
            if found:
                return found
            if end < time.monotonic():
                self.fail(f"waited {seconds} s in vain until {what}; the group is {self.state()}")
            time.sleep(0.02)

    def in_service(self, count):
        self.until(f"{count} are in service", lambda: len(self.ids("InService")) == len(self.ids()) == count)
        return self.ids()


class Refused:
    def __init__(self, case, code, words):
        self.case, self.code, self.words = case, code, words

    def __enter__(self):
        return self

    def __exit__(self, kind, trouble, trace):
        self.case.assertIsInstance(trouble, ClientError, f"{self.code} was expected")
        self.error = trouble.response
        self.case.assertEqual(trouble.response["Error"]["Code"], self.code)
        for word in self.words:
            self.case.assertIn(word, trouble.response["Error"]["Message"])
        return True
