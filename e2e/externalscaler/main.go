// Serves KEDA's external scaler protocol on KEDA's own package, for the end-to-end tests. It decides nothing: a file says how it
// answers.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

var (
	address = flag.String("address", "127.0.0.1:0", "where to serve")
	answers = flag.String("answers", "", "file of answers, read at each call")
	cert    = flag.String("cert", "", "certificate; empty: plaintext")
	key     = flag.String("key", "", "its key")
	ca      = flag.String("ca", "", "who has to have signed a client's certificate")
)

// Content of the file of answers.
type state struct {
	// Metrics with their targets, whole and as a float.
	Specs []struct {
		Name   string
		Target int64
		Float  float64
	}
	// Value of each metric; as a float if it is not whole.
	Values map[string]float64
	Active bool
	// Nothing is answered.
	Hang bool
	// Every call fails with these words.
	Fail string
}

type server struct {
	externalscaler.UnimplementedExternalScalerServer
}

func main() {
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	check(err)
	options := []grpc.ServerOption{grpc.UnaryInterceptor(intercept)}
	if *cert != "" {
		options = append(options, grpc.Creds(encryption()))
	}
	on := grpc.NewServer(options...)
	externalscaler.RegisterExternalScalerServer(on, &server{})
	fmt.Printf("listening on %s\n", listener.Addr())
	check(on.Serve(listener))
}

func encryption() credentials.TransportCredentials {
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	check(err)
	pem, err := os.ReadFile(*ca)
	check(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		log.Fatalf("no certificate in %s", *ca)
	}
	return credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
}

// Logs each call, and plays the faults of the file.
func intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	fmt.Printf("call %s %v\n", info.FullMethod, request)
	now := current()
	if now.Hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if now.Fail != "" {
		return nil, status.Error(codes.Unknown, now.Fail)
	}
	return handle(ctx, request)
}

func (*server) IsActive(context.Context, *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	return &externalscaler.IsActiveResponse{Result: current().Active}, nil
}

// StreamIsActive reports the activity at once, and each change of it.
func (*server) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream externalscaler.ExternalScaler_StreamIsActiveServer) error {
	fmt.Printf("stream of %s/%s opened\n", ref.GetNamespace(), ref.GetName())
	for reported, first := false, true; ; first = false {
		if active := current().Active; first || active != reported {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: active}); err != nil {
				return err
			}
			reported = active
			fmt.Printf("stream of %s/%s: %v\n", ref.GetNamespace(), ref.GetName(), active)
		}
		select {
		case <-stream.Context().Done():
			fmt.Printf("stream of %s/%s ended\n", ref.GetNamespace(), ref.GetName())
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (*server) GetMetricSpec(context.Context, *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	answer := &externalscaler.GetMetricSpecResponse{}
	for _, spec := range current().Specs {
		answer.MetricSpecs = append(answer.MetricSpecs, &externalscaler.MetricSpec{
			MetricName: spec.Name, TargetSize: spec.Target, TargetSizeFloat: spec.Float,
		})
	}
	return answer, nil
}

func (*server) GetMetrics(_ context.Context, request *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	answer := &externalscaler.GetMetricsResponse{}
	if value, known := current().Values[request.GetMetricName()]; known {
		metric := &externalscaler.MetricValue{MetricName: request.GetMetricName(), MetricValue: int64(value)}
		if value != float64(int64(value)) {
			metric.MetricValue, metric.MetricValueFloat = 0, value
		}
		answer.MetricValues = append(answer.MetricValues, metric)
	}
	return answer, nil
}

func current() state {
	now := state{}
	text, err := os.ReadFile(*answers)
	if err != nil || json.Unmarshal(text, &now) != nil {
		return state{Fail: "no answers are set"}
	}
	return now
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
