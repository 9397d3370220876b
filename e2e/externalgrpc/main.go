// Serves Cluster Autoscaler's KWOK provider over its externalgrpc protocol, with upstream's own wrapper, for the
// end-to-end tests. It decides nothing: a file of faults may lose, refuse or delay single calls.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"headroom.dev/e2e/externalgrpc/serving"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider/externalgrpc/examples/external-grpc-cloud-provider-service/wrapper"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider/externalgrpc/protos"
	"k8s.io/autoscaler/cluster-autoscaler/cloudprovider/kwok"
	"k8s.io/autoscaler/cluster-autoscaler/config"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

var faults = flag.String("faults", "", "file of faults, read at each call: lines of `<Rpc> lose-answer|lose-call|refuse|delay`")

func main() {
	flag.Parse()
	// Before anything is asked of the cluster: the port stays the same over a restart, and answers wait for the rest.
	listener := serving.Listen()
	provider := kwokProvider()
	register := func(server *grpc.Server) {
		protos.RegisterCloudProviderServer(server, wrapper.NewCloudProviderGrpcWrapper(provider))
	}
	serving.Serve(listener, register, grpc.UnaryInterceptor(intercept))
}

// The provider, with a synced list of Nodes: it reads targets from it.
func kwokProvider() cloudprovider.CloudProvider {
	restConfig, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	serving.Check(err)
	client, err := kubernetes.NewForConfig(restConfig)
	serving.Check(err)
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Nodes().Informer()
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	return kwok.BuildKwok(config.AutoscalingOptions{}, cloudprovider.NodeGroupDiscoveryOptions{}, nil, factory)
}

// Logs each call, and plays the fault that the file names for it.
func intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	rpc := path.Base(info.FullMethod)
	fault := faultOf(rpc)
	switch fault {
	case "lose-call":
		fmt.Printf("call %s %v lost\n", rpc, request)
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "refuse":
		fmt.Printf("call %s %v refused\n", rpc, request)
		return nil, status.Error(codes.ResourceExhausted, "quota of machines is used up")
	case "delay":
		time.Sleep(3 * time.Second)
	}
	answer, err := handle(ctx, request)
	fmt.Printf("call %s %v %s\n", rpc, request, status.Code(err))
	if fault == "lose-answer" {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return answer, err
}

func faultOf(rpc string) string {
	if *faults == "" {
		return ""
	}
	text, err := os.ReadFile(*faults)
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) == 2 && words[0] == rpc {
			return words[1]
		}
	}
	return ""
}
