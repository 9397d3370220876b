#!/usr/bin/env bash
# Builds the images twice, from copies of the repository in different folders and with nothing in common but the
# downloads, and checks that the digests are equal, that the binary runs on nothing but itself, and that the image is
# small.
#
#   hack/image/check.sh [OUT]     OUT: a folder that does not exist yet, which gets the image
#   ARCHITECTURES="amd64"         one platform only (default: amd64 and arm64)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:-}
HEADROOM_CACHE=${HEADROOM_CACHE:-$PWD/.cache}
export HEADROOM_CACHE
limit=$((25 * 1024 * 1024))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for copy in one other/deeper; do
  git clone --quiet . "$work/$copy"
  (cd "$work/$copy" && env -u CARGO_TARGET_DIR hack/image/build.sh "$work/image.$(basename "$copy")")
done
if ! diff "$work/image.one/digests" "$work/image.deeper/digests"; then
  echo "check.sh: two builds of the same sources differ" >&2
  exit 1
fi
while read -r platform _ size; do
  [[ $platform == linux/* ]] || continue
  if (( size > limit )); then
    echo "check.sh: the image for $platform is $size bytes, wanted at most $limit" >&2
    exit 1
  fi
done <"$work/image.one/digests"

# On an empty root, as in the image.
mkdir "$work/root"
case $(uname -m) in
  x86_64) triple=x86_64-unknown-linux-musl ;;
  aarch64) triple=aarch64-unknown-linux-musl ;;
esac
cp "$work/one/target/$triple/image/headroom" "$work/root/headroom"
unshare --map-root-user chroot "$work/root" /headroom --version
[[ -z $out ]] || { mkdir -p "$(dirname "$out")" && mv "$work/image.one" "$out"; }
echo "check.sh: both builds gave the same digests"
