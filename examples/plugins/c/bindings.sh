#!/bin/sh
# Makes gen/ anew after a change of the world: cargo install wit-bindgen-cli@0.61.1 --no-default-features --features c
# `bindings.sh --check` only says whether that is needed. A component asks only for what its sink calls.
set -eu
cd "$(dirname "$0")"
wit=../../../plugins/sdk/wit
# Without comments and white space, which change nothing.
digest=$(sed 's,//.*,,' $wit/sink.wit | tr -d '[:space:]' | sha256sum | cut -d' ' -f1)
if [ "${1:-}" = --check ]; then
    [ "$digest" = "$(cat gen/sink.wit.sha256)" ] && exit
    echo "the world has changed since examples/plugins/c/gen was made: run examples/plugins/c/bindings.sh" >&2
    exit 1
fi
wit-bindgen c $wit --world calling-sink --rename-world sink-plugin --out-dir gen
echo "$digest" >gen/sink.wit.sha256
