#!/usr/bin/env bash
# Builds the images twice, from copies of the repository in different folders and with nothing in common but the
# downloads, and checks that the digests are equal, that the binary runs on nothing but itself, and that the image is
# small. UPDATE=1 writes the sizes into docs/supply-chain.md.
#
#   hack/image/check.sh [OUT]     OUT: a folder that does not exist yet, which gets the image
#   ARCHITECTURES="amd64"         one platform only (default: amd64 and arm64)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:-}
HEADROOM_CACHE=${HEADROOM_CACHE:-$PWD/.cache}
export HEADROOM_CACHE
limit=$((25 * 1024 * 1024))

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for copy in one other/deeper; do
  git clone --quiet . "$scratch/$copy"
  (cd "$scratch/$copy" && env -u CARGO_TARGET_DIR hack/image/build.sh "$scratch/image.$(basename "$copy")")
done
if ! diff "$scratch/image.one/digests" "$scratch/image.deeper/digests"; then
  echo "check.sh: two builds of the same sources differ" >&2
  exit 1
fi
while read -r platform _ size; do
  [[ $platform == linux/* ]] || continue
  if (( size > limit )); then
    echo "check.sh: the image for $platform is $size bytes, wanted at most $limit" >&2
    exit 1
  fi
done <"$scratch/image.one/digests"

# On an empty root, as in the image.
mkdir "$scratch/empty"
case $(uname -m) in
  x86_64) triple=x86_64-unknown-linux-musl ;;
  aarch64) triple=aarch64-unknown-linux-musl ;;
esac
cp "$scratch/one/target/$triple/image/headroom" "$scratch/empty/headroom"
unshare --map-root-user chroot "$scratch/empty" /headroom --version

if [[ -n ${UPDATE:-} ]]; then
  {
    echo '```text'
    printf '%-12s %14s %12s\n' platform 'download (MB)' 'binary (MB)'
    while read -r platform _ size; do
      case $platform in
        linux/amd64) triple=x86_64-unknown-linux-musl ;;
        linux/arm64) triple=aarch64-unknown-linux-musl ;;
        *) continue ;;
      esac
      binary=$(stat -c %s "$scratch/one/target/$triple/image/headroom")
      awk -v p="$platform" -v s="$size" -v b="$binary" 'BEGIN { printf "%-12s %14.1f %12.1f\n", p, s / 1e6, b / 1e6 }'
    done <"$scratch/image.one/digests"
    echo '```'
  } >"$scratch/table"
  sed -i -e '/<!-- supply:image:start -->/,/<!-- supply:image:end -->/{//!d}' \
    -e "/<!-- supply:image:start -->/r $scratch/table" docs/supply-chain.md
fi
[[ -z $out ]] || { mkdir -p "$(dirname "$out")" && mv "$scratch/image.one" "$out"; }
echo "check.sh: both builds gave the same digests"
