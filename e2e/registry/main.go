// Command registry is a container registry, distribution's own handlers on loopback, for one user.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"golang.org/x/crypto/bcrypt"

	"context"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	folder := flag.String("folder", "", "folder of what is pushed")
	user := flag.String("user", "", "the one who may push and pull")
	password := flag.String("password", "", "password of that user")
	flag.Parse()
	if *folder == "" || *user == "" || *password == "" {
		return errors.New("-folder, -user and -password are all needed")
	}
	if err := os.MkdirAll(*folder, 0o755); err != nil {
		return err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(*password), bcrypt.MinCost)
	if err != nil {
		return err
	}
	users := filepath.Join(*folder, "htpasswd")
	if err := os.WriteFile(users, fmt.Appendf(nil, "%s:%s\n", *user, hash), 0o600); err != nil {
		return err
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{"filesystem": {"rootdirectory": filepath.Join(*folder, "storage")}},
		Auth:    configuration.Auth{"htpasswd": {"realm": "registry", "path": users}},
	}
	config.HTTP.Secret = *password
	config.Catalog.MaxEntries = 100
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// The tests read the address from the log.
	log.Printf("listening on %s", listener.Addr())
	return http.Serve(listener, handlers.NewApp(context.Background(), config))
}
