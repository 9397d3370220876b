// Serves Cluster Autoscaler's protocol of the expander `grpc` on upstream's own package, for the end-to-end tests. It decides
// nothing: a file says how it answers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"headroom.dev/e2e/externalgrpc/serving"
	"k8s.io/autoscaler/cluster-autoscaler/expander/grpcplugin/protos"
)

var answers = flag.String("answers", "", "file read at each call: `keep <id>...`, `veto`, `silent`, `refuse` or `strangers`")

type server struct {
	protos.UnimplementedExpanderServer
}

func main() {
	flag.Parse()
	// The limit for requests is that of servers in Go: 4 MiB.
	serving.Serve(serving.Listen(), func(on *grpc.Server) { protos.RegisterExpanderServer(on, &server{}) })
}

// BestOptions logs what was asked, and answers as the file says.
func (*server) BestOptions(ctx context.Context, request *protos.BestOptionsRequest) (*protos.BestOptionsResponse, error) {
	words := strings.Fields(readAnswers())
	if len(words) == 0 {
		words = []string{"refuse"}
	}
	describe(words[0], request)
	kept := []*protos.Option{}
	switch words[0] {
	case "keep":
		for _, option := range request.GetOptions() {
			for _, id := range words[1:] {
				if option.GetNodeGroupId() == id {
					kept = append(kept, option)
				}
			}
		}
	case "strangers":
		kept = append(kept, &protos.Option{NodeGroupId: "nobody-asked-for-this"})
	case "silent":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "refuse":
		return nil, status.Error(codes.Unavailable, "not now")
	}
	return &protos.BestOptionsResponse{Options: kept}, nil
}

// One line a call, one line an option: what a server of this generation can read of the request.
func describe(answer string, request *protos.BestOptionsRequest) {
	text := fmt.Sprintf("call BestOptions with %d options: %s\n", len(request.GetOptions()), answer)
	for _, option := range request.GetOptions() {
		pods := []string{}
		for _, pod := range option.GetPod() {
			cpu := pod.Spec.Containers[0].Resources.Requests.Cpu()
			pods = append(pods, fmt.Sprintf("%s/%s(cpu=%s)", pod.Namespace, pod.Name, cpu))
		}
		sort.Strings(pods)
		id := option.GetNodeGroupId()
		text += fmt.Sprintf("option %s: nodes=%d pods=%s", id, option.GetNodeCount(), strings.Join(pods, ","))
		if node := request.GetNodeMap()[id]; node != nil {
			text += fmt.Sprintf(" node=(cpu=%s zone=%s taints=%d)", node.Status.Allocatable.Cpu(),
				node.Labels["topology.kubernetes.io/zone"], len(node.Spec.Taints))
		}
		text += "\n"
	}
	fmt.Print(text)
}

func readAnswers() string {
	text, err := os.ReadFile(*answers)
	if err != nil {
		return ""
	}
	return string(text)
}
