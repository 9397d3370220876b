// Package serving is what the test servers have in common: flags for their address and certificates, and a listener that
// prints where it listens.
package serving

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

var (
	address = flag.String("address", "127.0.0.1:0", "where to serve")
	cert    = flag.String("cert", "", "certificate; empty: plaintext")
	key     = flag.String("key", "", "its key")
	ca      = flag.String("ca", "", "who has to have signed a client's certificate; empty: no client certificate is asked for")
)

// Listen takes the address that the flags name. Calls wait until Serve.
func Listen() net.Listener {
	listener, err := net.Listen("tcp", *address)
	Check(err)
	return listener
}

// Serve serves on the listener, with TLS where the flags name a certificate. It does not return.
func Serve(listener net.Listener, register func(*grpc.Server), options ...grpc.ServerOption) {
	if *cert != "" {
		options = append(options, grpc.Creds(encryption()))
	}
	server := grpc.NewServer(options...)
	register(server)
	fmt.Printf("listening on %s\n", listener.Addr())
	Check(server.Serve(listener))
}

func encryption() credentials.TransportCredentials {
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	Check(err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		Check(err)
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			log.Fatalf("no certificate in %s", *ca)
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, pool
	}
	return credentials.NewTLS(config)
}

// Check ends the program with the error, if there is one.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
