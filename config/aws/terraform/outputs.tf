output "operator_role_arn" {
  description = "Role of the operator."
  value       = aws_iam_role.operator.arn
}

output "launch_template" {
  description = "Name for provider.aws.managed.launchTemplate, with version: $Latest."
  value       = aws_launch_template.nodes.name
}

output "interruption_queue" {
  description = "Name for provider.aws.interruptionQueue."
  value       = aws_sqs_queue.interruptions.name
}
