#!/usr/bin/env bash
# Builds the operator's container images without a container engine: static binaries on an empty base, as an OCI layout
# that skopeo, crane or buildah copies anywhere, and the list of what is in them (CycloneDX).
#
#   hack/image/build.sh [OUT]     OUT: a folder that does not exist yet (default: target/oci), and not target/image, which Cargo
#                                 makes for the profile of that name
#   ARCHITECTURES="amd64"         one platform only (default: amd64 and arm64)
#
# Equal sources give equal digests, wherever they are built: paths are mapped away, times are those of the commit, and
# compiler, linker and authorities are pinned by hash. HEADROOM_CACHE moves the cache of tools (default: .cache).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
repo=$PWD
here=$repo/hack/image
out=${1:-target/oci}
target=${CARGO_TARGET_DIR:-$repo/target}
cache=${HEADROOM_CACHE:-$repo/.cache}

if [[ -e $out ]]; then
  echo "build.sh: $out exists: name another folder or remove it" >&2
  exit 1
fi

auditable=0.7.7
cyclonedx=0.5.9
tools=$cache/tools
mkdir -p "$tools"
exec 9>"$tools/.image.lock"
flock 9
tool() {
  local crate=$1 version=$2
  if ! grep -qs "^\"$crate $version " "$tools/.crates.toml"; then
    # Without optimization: quick to build, and nothing of ours is rebuilt.
    env -u CARGO_TARGET_DIR cargo install --quiet --locked --debug "$crate" --version "$version" --root "$tools" 9>&-
  fi
}
tool cargo-auditable "$auditable"
tool cargo-cyclonedx "$cyclonedx"
python=$cache/image-tools/$(sha256sum "$here/requirements.txt" | cut -c1-16)
if [[ ! -e $python/complete ]]; then
  rm -rf "$python"
  "${PYTHON:-python3}" -m venv "$python"
  "$python/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
    --only-binary :all: --requirement "$here/requirements.txt" 9>&-
  touch "$python/complete"
fi
flock -u 9
export PATH="$python/bin:$tools/bin:$PATH"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
revision=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
[[ -z $(git status --porcelain --untracked-files=no) ]] || revision+=-dirty

# A panic must not show where the image was built, and the digest must not depend on it.
separator=$'\x1f'
CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$repo=/src${separator}--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CARGO_ENCODED_RUSTFLAGS CARGO_INCREMENTAL=0

binaries=()
for architecture in ${ARCHITECTURES:-amd64 arm64}; do
  case $architecture in
    amd64) triple=x86_64-unknown-linux-musl ;;
    arm64) triple=aarch64-unknown-linux-musl ;;
    *) echo "build.sh: no images are built for $architecture: take amd64 or arm64" >&2; exit 1 ;;
  esac
  rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"
  cargo auditable zigbuild --profile image --locked --package headroom --bin headroom --target "$triple"
  binaries+=(-binary "$architecture=$target/$triple/image/headroom")
done

mkdir -p "$(dirname "$out")"
(cd "$here" && CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go build -o "$target/image-writer" .)
"$target/image-writer" "${binaries[@]}" -roots "$("$python/bin/python" -c 'import certifi; print(certifi.where())')" \
  -version "$version" -revision "$revision" -out "$out" | tee "$target/image.digests"
mv "$target/image.digests" "$out/digests"

# It writes one list into the folder of each package of the workspace.
cargo cyclonedx --quiet --format json --manifest-path Cargo.toml --target x86_64-unknown-linux-musl --override-filename package.cdx
mv src/headroom/package.cdx.json "$out/headroom.cdx.json"
git ls-files --others --exclude-standard -z -- '*/package.cdx.json' | xargs -0 -r rm -f
