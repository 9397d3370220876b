variable "cluster_name" {
  description = "Name of the EKS cluster, and provider.aws.clusterName of NodePools."
  type        = string
}

variable "security_group_ids" {
  description = "Security groups of the nodes, such as the cluster's own."
  type        = list(string)
}

variable "image_parameter" {
  description = "SSM parameter with the image of the nodes. A newer image makes a version of the launch template; rotation.drift of a NodePool then replaces nodes."
  type        = string
  default     = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"
}

variable "namespace" {
  description = "Namespace of the operator."
  type        = string
  default     = "headroom-system"
}

variable "service_account" {
  description = "Service account of the operator."
  type        = string
  default     = "headroom"
}
