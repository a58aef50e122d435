#!/bin/sh
# Makes threshold.wasm. Wants clang, lld, wasi-libc, compiler-rt for wasm32, and the component linker of a Rust toolchain
# (`rustup`), into which lld's output goes.
set -eu
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
clang --target=wasm32-wasi -mexec-model=reactor -Os -Wall -Wextra -Werror \
    "-fuse-ld=$(rustc --print sysroot)/lib/rustlib/$host/bin/wasm-component-ld" \
    sink.c gen/sink_plugin.c gen/sink_plugin_component_type.o -o threshold.wasm
