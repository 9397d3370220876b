// Runs NATS' own server with JetStream and its monitoring endpoint, and fills and empties a stream of it, for the end-to-end tests.
//
//	nats serve --client=127.0.0.1:4222 --monitoring=127.0.0.1:8222 --store=DIR
//	nats stream NAME CONSUMER    a stream of the subject NAME with a pull consumer
//	nats publish NAME COUNT      so many messages
//	nats take NAME CONSUMER COUNT [--ack=false]
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("nats: serve, stream, publish or take")
	}
	command := os.Args[1]
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	client := flags.String("client", "127.0.0.1:4222", "where clients connect")
	monitoring := flags.String("monitoring", "127.0.0.1:8222", "where the server says how it is")
	store := flags.String("store", "", "folder of the streams")
	ack := flags.Bool("ack", true, "acknowledge what is taken")
	check(flags.Parse(os.Args[2:]))
	args := flags.Args()
	if command == "serve" {
		serve(*client, *monitoring, *store)
		return
	}
	connection, err := nats.Connect("nats://" + *client)
	check(err)
	defer connection.Close()
	streams, err := connection.JetStream()
	check(err)
	switch command {
	case "stream":
		_, err := streams.AddStream(&nats.StreamConfig{Name: args[0], Subjects: []string{args[0]}})
		check(err)
		_, err = streams.AddConsumer(args[0], &nats.ConsumerConfig{
			Durable: args[1], AckPolicy: nats.AckExplicitPolicy, AckWait: time.Hour,
		})
		check(err)
	case "publish":
		for range number(args[1]) {
			_, err := streams.Publish(args[0], []byte("work"))
			check(err)
		}
	case "take":
		subscription, err := streams.PullSubscribe(args[0], args[1], nats.Bind(args[0], args[1]))
		check(err)
		messages, err := subscription.Fetch(number(args[2]), nats.MaxWait(10*time.Second))
		check(err)
		for _, message := range messages {
			if *ack {
				check(message.AckSync())
			}
		}
		fmt.Println(len(messages))
	default:
		log.Fatalf("nats: %s is no command", command)
	}
}

func serve(client, monitoring, store string) {
	options := &server.Options{JetStream: true, StoreDir: store, NoSigs: true}
	options.Host, options.Port = hostPort(client)
	options.HTTPHost, options.HTTPPort = hostPort(monitoring)
	nats, err := server.NewServer(options)
	check(err)
	nats.Start()
	if !nats.ReadyForConnections(30 * time.Second) {
		log.Fatal("the server is not ready")
	}
	fmt.Println("listening on", client)
	nats.WaitForShutdown()
}

func hostPort(address string) (string, int) {
	host, port, err := net.SplitHostPort(address)
	check(err)
	return host, number(port)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
