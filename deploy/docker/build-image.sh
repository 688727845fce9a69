#!/bin/sh
# Makes the default image where no registry can be reached: debootstrap, then an import. Needs root
# for debootstrap, and an engine. What was downloaded is kept for the next time.
#
#   deploy/docker/build-image.sh [NAME]
set -eu
name=${1:-localhost/rivumi-sandbox:latest}
suite=${SUITE:-bookworm}
mirror=${MIRROR:-http://deb.debian.org/debian}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rivumi/image-$suite
if [ ! -f "$cache/root.tar" ]; then
  mkdir -p "$cache"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT INT TERM
  debootstrap --variant=minbase --include=ca-certificates,git,make,patch,python3,ripgrep "$suite" "$work/root" "$mirror"
  rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/doc/* \
    "$work"/root/usr/share/man/* "$work"/root/usr/share/locale/*
  tar -C "$work/root" --numeric-owner --exclude=./dev/* -cf "$cache/root.tar.new" .
  mv "$cache/root.tar.new" "$cache/root.tar"
fi
docker import --change 'CMD ["/bin/sh"]' "$cache/root.tar" "$name"
