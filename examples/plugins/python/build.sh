#!/bin/sh
# Makes threshold.wasm. Wants Python 3.10 or newer with venv.
set -eu
cd "$(dirname "$0")"
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt
.venv/bin/componentize-py --wit-path ../../../plugins/sdk/wit --world sink-plugin \
    componentize --stub-wasi app --output threshold.wasm
