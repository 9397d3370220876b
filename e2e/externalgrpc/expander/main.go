// Serves Cluster Autoscaler's protocol of the expander `grpc` on upstream's own package, for the end-to-end tests. It decides
// nothing: a file says how it answers.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"sort"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"k8s.io/autoscaler/cluster-autoscaler/expander/grpcplugin/protos"
)

var (
	address = flag.String("address", "127.0.0.1:0", "where to serve")
	cert    = flag.String("cert", "", "certificate; empty: plaintext")
	key     = flag.String("key", "", "its key")
	ca      = flag.String("ca", "", "who may have signed a client's certificate; empty: no client certificate is asked for")
	answers = flag.String("answers", "", "file read at each call: `keep <id>...`, `veto`, `silent`, `refuse` or `strangers`")
)

type server struct {
	protos.UnimplementedExpanderServer
}

func main() {
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	check(err)
	// The limit for requests is that of servers in Go: 4 MiB.
	options := []grpc.ServerOption{}
	if *cert != "" {
		options = append(options, grpc.Creds(encryption()))
	}
	serving := grpc.NewServer(options...)
	protos.RegisterExpanderServer(serving, &server{})
	fmt.Printf("listening on %s\n", listener.Addr())
	check(serving.Serve(listener))
}

func encryption() credentials.TransportCredentials {
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	check(err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		check(err)
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			log.Fatalf("no certificate in %s", *ca)
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, pool
	}
	return credentials.NewTLS(config)
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
