#!/usr/bin/env bash
# Packs the charts and install.yaml for a release, with the image that they install by its digest.
#
#   hack/package.sh IMAGE DIGEST OUT     IMAGE: registry.example/headroom; DIGEST: sha256:…; OUT: a folder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
image=${1:?"the image's name, such as registry.example/headroom"}
digest=${2:?"the image's digest, such as sha256:…"}
mkdir -p "${3:?"the folder for what is packed"}"
out=$(realpath "$3")
tools=$(e2e/gitops/build.sh)/bin

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r charts config "$scratch/"
cd "$scratch"

sed -i -e "s|^  repository: headroom\$|  repository: $image|" -e "s|^  digest: \"\"\$|  digest: $digest|" charts/headroom/values.yaml
for chart in charts/*; do "$tools/helm" package "$chart" --destination "$out"; done
(cd config/default && "$tools/kustomize" edit set image "headroom=$image@$digest")
"$tools/kustomize" build config/default >"$out/install.yaml"

# What is packed installs this image and no other.
for rendered in "$("$tools/helm" template "$out"/headroom-[0-9]*.tgz)" "$(<"$out/install.yaml")"; do
  if [[ $(sed -n 's/^ *-\{0,1\} *image: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' <<<"$rendered" | sort -u) != "$image@$digest" ]]; then
    echo "package.sh: what was packed does not install $image@$digest alone" >&2
    exit 1
  fi
done
