#!/usr/bin/env bash
# Pushes the images to a registry, checks that the registry has the digest that was built, and prints the reference by digest.
#
#   hack/image/push.sh REGISTRY [LAYOUT]   REGISTRY: registry.example/team, without the image's name
#                                          LAYOUT: a folder that hack/image/build.sh has made (default: target/oci)
#   TAG=0.1.0-rc.1                         the tag (default: the version in Cargo.toml)
#
# Credentials are those of `docker login`, `podman login` or `crane auth login`: DOCKER_CONFIG, or REGISTRY_AUTH_FILE. A registry on
# loopback, or with a private address, may be without TLS.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
registry=${1:?"the registry and the folder in it, such as registry.example/team"}
layout=${2:-$repo/target/oci}
tag=${TAG:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$repo/Cargo.toml" | head -1)}
image=${registry%/}/headroom

if [[ ! -f $layout/digests ]]; then
  echo "push.sh: $layout has no image: hack/image/build.sh makes one" >&2
  exit 1
fi
layout=$(realpath "$layout")
built=$(sed -n 's/^index //p' "$layout/digests")
crane() {
  (cd "$repo/hack/image" && CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go tool crane "$@")
}

# The digest of the layout is checked first: nothing else is to get the tag.
if ! grep -q "\"$built\"" "$layout/index.json"; then
  echo "push.sh: $layout/digests names $built, and the layout another image" >&2
  exit 1
fi
crane push "$layout" "$image:$tag" >&2
pushed=$(crane digest "$image:$tag")
if [[ $pushed != "$built" ]]; then
  echo "push.sh: $image:$tag has the digest $pushed, and $built was built" >&2
  exit 1
fi
echo "$image:$tag@$pushed"
