"""config/aws/cloudformation.yaml and config/aws/terraform make what NodePools need, with the policies that are documented."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import boto3
import hcl2
import yaml
from moto import mock_aws

AWS = pathlib.Path(__file__).resolve().parents[2] / "config" / "aws"
STACK = AWS / "cloudformation.yaml"
CLUSTER = "prod"
REGION = "us-east-1"
IMAGE = "ami-0123456789abcdef0"
IMAGE_PARAMETER = "/nodes/image"
EVENTS = [
    "AWS Health Event",
    "EC2 Instance State-change Notification",
    "EC2 Spot Instance Interruption Warning",
]


def documented(name, words):
    text = (AWS / name).read_text()
    for old, new in words.items():
        text = text.replace(old, new)
    return json.loads(text)


def with_documents(text):
    """The template with policies as objects: the simulator takes no text there, as CloudFormation does."""
    template = yaml.load(text, Loader=Loader)
    for resource in template["Resources"].values():
        document = resource.get("Properties", {}).get("PolicyDocument", {})
        if "Fn::Sub" in document:
            resource["Properties"]["PolicyDocument"] = substituted(json.loads(document["Fn::Sub"]))
    return json.dumps(template)


def substituted(value):
    """Texts with variables as calls, and those that are keys with the cluster's name."""
    if isinstance(value, dict):
        return {key.replace("${ClusterName}", CLUSTER): substituted(one) for key, one in value.items()}
    if isinstance(value, list):
        return [substituted(one) for one in value]
    return {"Fn::Sub": value} if "${" in str(value) else value


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms of calls."""


def call(loader, suffix, node):
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    return {name: loader.construct_sequence(node)}


Loader.add_multi_constructor("!", call)


class Stack(unittest.TestCase):
    def test_the_linter_of_cloudformation_finds_nothing(self):
        lint = pathlib.Path(sys.executable).parent / "cfn-lint"
        done = subprocess.run([lint, STACK], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    @mock_aws
    def test_it_makes_role_policies_template_and_queue(self):
        ec2 = boto3.client("ec2", REGION)
        vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
        boto3.client("ssm", REGION).put_parameter(Name=IMAGE_PARAMETER, Value=IMAGE, Type="String")
        parameters = {
            "ClusterName": CLUSTER,
            "ClusterEndpoint": "https://example.invalid",
            "ClusterCertificateAuthority": "Y2E=",
            "ServiceCidr": "10.100.0.0/16",
            "SecurityGroups": group,
            "Image": IMAGE_PARAMETER,
        }
        cloudformation = boto3.client("cloudformation", REGION)
        cloudformation.create_stack(
            StackName="headroom",
            # The simulator looks the default up too, and cannot make a parameter of that name.
            TemplateBody=with_documents(re.sub(r"Default: /aws/service/\S+", f"Default: {IMAGE_PARAMETER}", STACK.read_text())),
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        )
        stack = cloudformation.describe_stacks(StackName="headroom")["Stacks"][0]
        self.assertEqual(stack["StackStatus"], "CREATE_COMPLETE")
        outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        resources = cloudformation.describe_stack_resources(StackName="headroom")["StackResources"]
        # Kinds that the simulator does not know are in the list without a name.
        ids = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in resources if "LogicalResourceId" in one}

        self.template(ec2, outputs["LaunchTemplate"], group)
        self.policies(ids)
        self.queue(outputs["InterruptionQueue"])

    def template(self, ec2, name, group):
        version = ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["$Latest"])
        data = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        self.assertEqual((data["ImageId"], data["SecurityGroupIds"]), (IMAGE, [group]))
        # The operator refuses a template that asks for spot instances itself.
        self.assertNotIn("InstanceMarketOptions", data)

    def policies(self, ids):
        iam = boto3.client("iam", REGION)
        role = iam.get_role(RoleName=ids["NodeRole"])["Role"]["Arn"]
        words = {
            "CLUSTER": CLUSTER,
            "LAUNCH_TEMPLATE_ID": ids["NodeTemplate"],
            "arn:aws:iam::ACCOUNT:role/NODE_ROLE": role,
        }
        for resource, file in [("ResizePolicy", "iam-policy.json"), ("ManagedPolicy", "iam-policy-managed.json")]:
            arn = ids[resource]
            version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            found = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
            found = json.loads(found) if isinstance(found, str) else found
            self.assertEqual(found, documented(file, words))
        # The simulator attaches none by itself.
        operator = yaml.load(STACK.read_text(), Loader=Loader)["Resources"]["OperatorRole"]["Properties"]
        attached = [policy["Ref"] for policy in operator["ManagedPolicyArns"]]
        self.assertEqual(attached, ["ResizePolicy", "ManagedPolicy", "QueuePolicy"])

    def queue(self, name):
        url = boto3.client("sqs", REGION).get_queue_url(QueueName=name)["QueueUrl"]
        self.assertTrue(url)
        events = boto3.client("events", REGION)
        rules = events.list_rules()["Rules"]
        kinds = sorted(kind for rule in rules for kind in json.loads(rule["EventPattern"])["detail-type"])
        self.assertEqual(kinds, EVENTS)
        for rule in rules:
            targets = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
            self.assertEqual([target["Arn"].split(":")[-1] for target in targets], [name])


class Terraform(unittest.TestCase):
    """Its provider is in no registry of packages, so that it is read and not planned."""

    @classmethod
    def setUpClass(cls):
        cls.files = sorted((AWS / "terraform").glob("*.tf"))
        cls.text = "\n".join(file.read_text() for file in cls.files)
        cls.blocks = [hcl2.loads(file.read_text()) for file in cls.files]

    def of(self, kind):
        return [block for file in self.blocks for block in file.get(kind, [])]

    def test_what_it_refers_to_is_declared(self):
        plain = lambda name: name.strip('"')
        declared = {
            f"{plain(kind)}.{plain(name)}" for block in self.of("resource") for kind, names in block.items() for name in names
        }
        declared |= {
            f"data.{plain(kind)}.{plain(name)}" for block in self.of("data") for kind, names in block.items() for name in names
        }
        declared |= {f"var.{plain(name)}" for block in self.of("variable") for name in block}
        declared |= {f"local.{name}" for block in self.of("locals") for name in block if "__" not in name}
        used = set(re.findall(r"\b((?:data\.)?aws_[a-z_]+\.[a-z_]+|(?:var|local)\.[a-z_]+)", self.text))
        self.assertEqual(used - declared, set())
        unused = {name for name in declared if name.startswith(("var.", "local.", "data."))} - used
        self.assertEqual(unused, set())

    def test_it_has_the_documented_policies_and_events(self):
        for file in ["iam-policy.json", "iam-policy-managed.json"]:
            self.assertIn(f'file("${{path.module}}/../{file}")', self.text)
        for word in ["CLUSTER", "LAUNCH_TEMPLATE_ID", "arn:aws:iam::ACCOUNT:role/NODE_ROLE"]:
            self.assertIn(f'"{word}"', self.text)
        for kind in EVENTS:
            self.assertIn(f'detail-type = ["{kind}"]', self.text)

    def test_its_user_data_is_that_of_the_stack(self):
        own = (AWS / "terraform" / "user-data.txt").read_text()
        names = {"name": "ClusterName", "endpoint": "ClusterEndpoint", "ca": "ClusterCertificateAuthority", "cidr": "ServiceCidr"}
        for name, parameter in names.items():
            own = own.replace(f"${{{name}}}", f"${{{parameter}}}")
        stack = "\n".join(line.strip() for line in STACK.read_text().splitlines())
        self.assertIn("\n".join(line.strip() for line in own.strip().splitlines()), stack)


if __name__ == "__main__":
    unittest.main()
