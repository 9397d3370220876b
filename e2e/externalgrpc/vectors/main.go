// Prints messages of the externalgrpc protocol as upstream's generated package encodes them, in hex, for the unit tests of
// src/externalgrpc: `go run ./vectors > ../../src/externalgrpc/src/tests/vectors.txt`.
package main

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider/externalgrpc/protos"
	expander "k8s.io/autoscaler/cluster-autoscaler/expander/grpcplugin/protos"
)

func show(name string, message proto.Message) {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %x\n", name, bytes)
}

func main() {
	group := &protos.NodeGroup{Id: "web", MinSize: 1, MaxSize: 10, Debug: "web (1:10)"}
	node := &protos.ExternalGrpcNode{
		ProviderID:  "cloud://n1",
		Name:        "n1",
		Labels:      map[string]string{"a": "b"},
		Annotations: map[string]string{"c": "d"},
	}
	show("NodeGroups", &protos.NodeGroupsResponse{NodeGroups: []*protos.NodeGroup{group}})
	show("NodeGroupForNodeRequest", &protos.NodeGroupForNodeRequest{Node: node})
	show("NodeGroupForNode", &protos.NodeGroupForNodeResponse{NodeGroup: group})
	show("GroupRequest", &protos.NodeGroupTargetSizeRequest{Id: "web"})
	show("TargetSize", &protos.NodeGroupTargetSizeResponse{TargetSize: 7})
	show("Increase", &protos.NodeGroupIncreaseSizeRequest{Delta: 3, Id: "web"})
	show("Decrease", &protos.NodeGroupDecreaseTargetSizeRequest{Delta: -2, Id: "web"})
	show("DeleteNodes", &protos.NodeGroupDeleteNodesRequest{Nodes: []*protos.ExternalGrpcNode{node}, Id: "web"})
	show("Instances", &protos.NodeGroupNodesResponse{Instances: []*protos.Instance{{
		Id: "cloud://n1",
		Status: &protos.InstanceStatus{
			InstanceState: protos.InstanceStatus_instanceCreating,
			ErrorInfo:     &protos.InstanceErrorInfo{ErrorCode: "STOCK", ErrorMessage: "none left", InstanceErrorClass: 1},
		},
	}}})
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi")}
	show("Template", &protos.NodeGroupTemplateNodeInfoResponse{NodeInfo: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Labels: map[string]string{"disk": "ssd"}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "only", Value: "x", Effect: v1.TaintEffectNoSchedule}}},
		Status:     v1.NodeStatus{Capacity: amounts, Allocatable: amounts},
	}})
	show("Options", &protos.NodeGroupAutoscalingOptionsRequest{Id: "web", Defaults: &protos.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    0.5,
		ScaleDownGpuUtilizationThreshold: 0.7,
		ScaleDownUnneededTime:            &metav1.Duration{Duration: 10 * time.Minute},
		ScaleDownUnreadyTime:             &metav1.Duration{Duration: 20 * time.Minute},
		MaxNodeProvisionTime:             &metav1.Duration{Duration: 15 * time.Minute},
		IgnoreDaemonSetsUtilization:      true,
	}})
	show("BestOptions", question())
}

// A question of expander `grpc` about one pod with every field that is sent.
func question() proto.Message {
	selector := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
	}
	amounts := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	yes, priority := true, int32(7)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "default", UID: "uid-1", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs-1", Controller: &yes}},
		},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
			Containers: []v1.Container{{
				Name:  "sum",
				Ports: []v1.ContainerPort{{HostPort: 8080, ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("2Gi"),
					"example.com/gpu": resource.MustParse("1"),
				}},
			}},
			NodeSelector: map[string]string{"disk": "ssd"},
			Affinity: &v1.Affinity{
				NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
						{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a", "b"}},
					}}},
				}},
				PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
					{LabelSelector: selector("db"), TopologyKey: "zone"},
				}},
				PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
					{LabelSelector: selector("web"), TopologyKey: "host"},
				}},
			},
			SchedulerName: "default-scheduler",
			Tolerations:   []v1.Toleration{{Key: "only", Operator: v1.TolerationOpEqual, Value: "x", Effect: v1.TaintEffectNoSchedule}},
			Priority:      &priority,
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector("web"),
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": "ssd"}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "only", Value: "x", Effect: v1.TaintEffectNoSchedule}}},
		Status:     v1.NodeStatus{Capacity: amounts, Allocatable: amounts},
	}
	return &expander.BestOptionsRequest{
		Options: []*expander.Option{{NodeGroupId: "a", NodeCount: 2, Debug: "web", Pod: []*v1.Pod{pod}}},
		NodeMap: map[string]*v1.Node{"a": node},
	}
}
