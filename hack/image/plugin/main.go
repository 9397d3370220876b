// Command plugin packs the programs of an image layout as a plugin of kubectl: an archive for each platform, krew's manifest over
// them, and their checksums.
//
// The programs are the very ones of the images, and nothing in an archive depends on when or where it is packed.
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// name is what kubectl and krew call the plugin; its program is kubectl-headroom.
const (
	name    = "headroom"
	program = "kubectl-" + name
)

const head = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: headroom
spec:
  version: v%s
  homepage: %s
  shortDescription: Explain why pods wait and nodes stay
  description: |
    Reads a cluster that Headroom scales and says why it is as it is: why a pod
    waits, why a node stays, why a workload has its size. It compares what was
    done with what Headroom would have done, and changes nothing.
  caveats: |
    Reading takes the ClusterRole headroom-viewer, which is part of the role
    view of the cluster.
  platforms:
`

const platform = `  - selector:
      matchLabels:
        os: %s
        arch: %s
    uri: %s/%s
    sha256: %s
    bin: %s
    files:
    - from: "*"
      to: .
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func run() error {
	path := flag.String("layout", "", "folder of the OCI layout")
	url := flag.String("url", "", "where the archives are to be downloaded from, without a slash at the end")
	homepage := flag.String("homepage", "", "page that the manifest names")
	version := flag.String("version", "", "version, without a v")
	licence := flag.String("license", "", "file of the licence")
	out := flag.String("out", "", "folder for the archives, headroom.yaml and SHA256SUMS")
	flag.Parse()
	if *path == "" || *url == "" || *homepage == "" || *version == "" || *licence == "" || *out == "" {
		return errors.New("-layout, -url, -homepage, -version, -license and -out are all needed")
	}
	images, err := images(*path)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(*licence)
	if err != nil {
		return err
	}
	var manifest, sums strings.Builder
	fmt.Fprintf(&manifest, head, *version, *homepage)
	for _, one := range images {
		archive := fmt.Sprintf("%s_%s_%s.tar.gz", program, one.platform.OS, one.platform.Architecture)
		sum, err := pack(one, license, filepath.Join(*out, archive))
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		fmt.Fprintf(&manifest, platform, one.platform.OS, one.platform.Architecture, *url, archive, sum, program)
		fmt.Fprintf(&sums, "%s  %s\n", sum, archive)
	}
	if err := os.WriteFile(filepath.Join(*out, name+".yaml"), []byte(manifest.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

type platformImage struct {
	platform v1.Platform
	image    v1.Image
}

// images returns the images of the one index that the layout names.
func images(path string) ([]platformImage, error) {
	root, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	named, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(named.Manifests) != 1 || !named.Manifests[0].MediaType.IsIndex() {
		return nil, fmt.Errorf("%s does not name one index alone", path)
	}
	index, err := root.ImageIndex(named.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []platformImage
	for _, entry := range manifest.Manifests {
		if entry.Platform == nil {
			return nil, fmt.Errorf("%s names no platform", entry.Digest)
		}
		image, err := index.Image(entry.Digest)
		if err != nil {
			return nil, err
		}
		found = append(found, platformImage{platform: *entry.Platform, image: image})
	}
	return found, nil
}

// pack writes the archive of one platform and returns its SHA-256 in hexadecimal digits.
func pack(one platformImage, license []byte, path string) (string, error) {
	made, err := one.image.ConfigFile()
	if err != nil {
		return "", err
	}
	binary, err := fileOf(one.image, name)
	if err != nil {
		return "", err
	}
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	compressed, err := gzip.NewWriterLevel(io.MultiWriter(file, sum), gzip.BestCompression)
	if err != nil {
		return "", err
	}
	archive := tar.NewWriter(compressed)
	if err := add(archive, program, 0o755, binary, made.Created.Time); err != nil {
		return "", err
	}
	if err := add(archive, "LICENSE", 0o644, license, made.Created.Time); err != nil {
		return "", err
	}
	for _, part := range []io.Closer{archive, compressed, file} {
		if err := part.Close(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

func add(archive *tar.Writer, name string, mode int64, content []byte, made time.Time) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: made, Format: tar.FormatUSTAR,
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

// fileOf returns the content of a file of the image.
func fileOf(image v1.Image, name string) ([]byte, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return nil, err
		}
		defer content.Close()
		for archive := tar.NewReader(content); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if header.Name == name {
				return io.ReadAll(archive)
			}
		}
	}
	return nil, fmt.Errorf("the image has no file %s", name)
}
