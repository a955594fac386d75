#!/bin/sh
# Called by rustc as its linker: links as it is told, and again with each of $LINKERS, into the folder $LINKED.
set -e
cc "$@"
for linker in $LINKERS; do
    cc "$@" -fuse-ld="$linker" -o "$LINKED/$linker"
done
output=
for argument; do
    [ "$previous" = -o ] && output=$argument
    previous=$argument
done
cp "$output" "$LINKED/default"
