# What Headroom needs on AWS besides an EKS cluster: its role, the role and the launch template of the nodes that it makes, and
# the queue of interruptions. The same as ../cloudformation.yaml; the policies are the files beside that.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.81"
    }
  }
}

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

data "aws_ssm_parameter" "image" {
  name = var.image_parameter
}

locals {
  partition = data.aws_partition.this.partition

  resize = replace(file("${path.module}/../iam-policy.json"), "CLUSTER", var.cluster_name)

  managed_of_cluster  = replace(file("${path.module}/../iam-policy-managed.json"), "CLUSTER", var.cluster_name)
  managed_of_template = replace(local.managed_of_cluster, "LAUNCH_TEMPLATE_ID", aws_launch_template.nodes.id)
  managed_of_role     = replace(local.managed_of_template, "arn:aws:iam::ACCOUNT:role/NODE_ROLE", aws_iam_role.nodes.arn)
  managed             = replace(local.managed_of_role, "arn:aws:ec2:", "arn:${local.partition}:ec2:")

  node_policies = ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly"]

  events = {
    spot-interruptions = jsonencode({
      source      = ["aws.ec2"]
      detail-type = ["EC2 Spot Instance Interruption Warning"]
    })
    state-changes = jsonencode({
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance State-change Notification"]
      detail      = { state = ["stopping", "stopped", "shutting-down", "terminated"] }
    })
    maintenance = jsonencode({
      source      = ["aws.health"]
      detail-type = ["AWS Health Event"]
      detail      = { service = ["EC2"], eventTypeCategory = ["scheduledChange"] }
    })
  }
}

# The operator's role, taken by EKS Pod Identity: the cluster needs the add-on eks-pod-identity-agent.
resource "aws_iam_role" "operator" {
  name_prefix = "${substr(var.cluster_name, 0, 25)}-headroom-"
  description = "Headroom in the cluster ${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy" "resize" {
  name   = "resize"
  role   = aws_iam_role.operator.id
  policy = local.resize
}

resource "aws_iam_role_policy" "managed" {
  name   = "managed"
  role   = aws_iam_role.operator.id
  policy = local.managed
}

resource "aws_iam_role_policy" "queue" {
  name = "queue"
  role = aws_iam_role.operator.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
      Resource = aws_sqs_queue.interruptions.arn
    }]
  })
}

resource "aws_eks_pod_identity_association" "operator" {
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.operator.arn
}

resource "aws_iam_role" "nodes" {
  name_prefix = "${substr(var.cluster_name, 0, 25)}-nodes-"
  description = "Nodes of the cluster ${var.cluster_name} that Headroom makes"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.${data.aws_partition.this.dns_suffix}" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "nodes" {
  for_each   = toset(local.node_policies)
  role       = aws_iam_role.nodes.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_instance_profile" "nodes" {
  name_prefix = "${substr(var.cluster_name, 0, 25)}-nodes-"
  role        = aws_iam_role.nodes.name
}

# Nodes of this role may join the cluster; its authentication mode must be API or API_AND_CONFIG_MAP.
resource "aws_eks_access_entry" "nodes" {
  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.nodes.arn
  type          = "EC2_LINUX"
}

resource "aws_launch_template" "nodes" {
  name     = "${var.cluster_name}-nodes"
  image_id = data.aws_ssm_parameter.image.value
  # Headroom replaces it by the type that it chooses.
  instance_type          = "m6i.large"
  vpc_security_group_ids = var.security_group_ids

  iam_instance_profile {
    arn = aws_iam_instance_profile.nodes.arn
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = 50
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  user_data = base64encode(templatefile("${path.module}/user-data.txt", {
    name     = var.cluster_name
    endpoint = data.aws_eks_cluster.this.endpoint
    ca       = data.aws_eks_cluster.this.certificate_authority[0].data
    cidr     = data.aws_eks_cluster.this.kubernetes_network_config[0].service_ipv4_cidr
  }))

  dynamic "tag_specifications" {
    for_each = ["instance", "volume"]

    content {
      resource_type = tag_specifications.value
      tags          = { "kubernetes.io/cluster/${var.cluster_name}" = "owned" }
    }
  }
}

# An interruption is over in two minutes; what is older helps nobody.
resource "aws_sqs_queue" "interruptions" {
  name                      = "${var.cluster_name}-interruptions"
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "interruptions" {
  queue_url = aws_sqs_queue.interruptions.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.interruptions.arn
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.this.account_id } }
    }]
  })
}

resource "aws_cloudwatch_event_rule" "interruptions" {
  for_each      = local.events
  name          = "${var.cluster_name}-${each.key}"
  event_pattern = each.value
}

resource "aws_cloudwatch_event_target" "interruptions" {
  for_each = aws_cloudwatch_event_rule.interruptions
  rule     = each.value.name
  arn      = aws_sqs_queue.interruptions.arn
}
