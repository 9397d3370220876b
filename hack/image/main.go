// Command image writes the operator's container images as one OCI layout: one image a platform, and an index over them.
//
// Nothing in it depends on when or where it runs: file times are SOURCE_DATE_EPOCH, owners are numbers, files come in
// a fixed order, so that equal inputs give equal digests.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The user of the image: the number that distroless images call nonroot.
const user = "65532:65532"

type binaries []string

func (b *binaries) String() string { return strings.Join(*b, ",") }

func (b *binaries) Set(value string) error {
	*b = append(*b, value)
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	var binary binaries
	flag.Var(&binary, "binary", "ARCHITECTURE=PATH of a static binary; repeatable")
	roots := flag.String("roots", "", "PEM file of the certificate authorities to trust")
	version := flag.String("version", "", "version label")
	revision := flag.String("revision", "", "revision label")
	out := flag.String("out", "", "folder of the OCI layout; it must not exist")
	flag.Parse()
	if len(binary) == 0 || *roots == "" || *version == "" || *revision == "" || *out == "" {
		return errors.New("-binary, -roots, -version, -revision and -out are all needed")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970: %w", err)
	}
	made := time.Unix(epoch, 0).UTC()

	var index v1.ImageIndex = empty.Index
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	for _, pair := range binary {
		architecture, path, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("-binary %q is not ARCHITECTURE=PATH", pair)
		}
		image, err := build(architecture, path, *roots, *version, *revision, made)
		if err != nil {
			return fmt.Errorf("image for %s: %w", architecture, err)
		}
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: plain{image}, Descriptor: v1.Descriptor{Platform: &platform}})
		size, err := compressed(image)
		if err != nil {
			return err
		}
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("linux/%s %s %d\n", architecture, digest, size)
	}
	if _, err := os.Stat(*out); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists already", *out)
	}
	// The layout names one thing, the index of all platforms: tools refuse to choose among several.
	named := mutate.AppendManifests(
		mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index})
	if _, err := layout.Write(*out, named); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("index %s\n", digest)
	return nil
}

// plain is an image whose entry in an index names no artifact type. An image needs none, and tools that do not know the
// field leave it out when they copy the index, which changes its digest.
type plain struct{ v1.Image }

func (plain) ArtifactType() (string, error) { return "", nil }

// build makes the image of one platform: an empty base, the binary, and the authorities that clouds' certificates need.
func build(architecture, binary, roots, version, revision string, made time.Time) (v1.Image, error) {
	content, err := files(map[string]string{"headroom": binary, "etc/ssl/certs/ca-certificates.crt": roots}, made)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(9),
	)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: made}, CreatedBy: "hack/image/build.sh"},
	})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":       "headroom",
		"org.opencontainers.image.description": "Keeps the right number of pods and of nodes in a Kubernetes cluster",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.revision":    revision,
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Created = v1.Time{Time: made}
	config.Config = v1.Config{
		User:       user,
		Entrypoint: []string{"/headroom"},
		Cmd:        []string{"run"},
		WorkingDir: "/",
		Labels:     labels,
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, labels).(v1.Image)
	if !ok {
		return nil, errors.New("an annotated image is no image")
	}
	return annotated, nil
}

// files packs name → path into a tar whose bytes follow from the files' bytes alone.
func files(sources map[string]string, made time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	header := func(name string, kind byte, mode, size int64) error {
		return archive.WriteHeader(&tar.Header{
			Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: made, Format: tar.FormatUSTAR,
		})
	}
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		if err := header(folder, tar.TypeDir, 0o755, 0); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "headroom"} {
		content, err := os.ReadFile(sources[name])
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if filepath.Dir(name) == "." {
			mode = 0o755
		}
		if err := header(name, tar.TypeReg, mode, int64(len(content))); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// compressed is what a node downloads for the image, in bytes.
func compressed(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}
