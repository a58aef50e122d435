# Sourced by each peer's `run`: where it installs to, when it has to, and how it says that it cannot.
#
# Sets `here` (the peer's folder), `port`, `data` and `keys`, and `installed` (what it installs into).

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
name=$(basename "$here")
target=${CARGO_TARGET_DIR:-$(cd "$here/../../.." && pwd)/target}
installed=$target/peers/$name

# Ends with 3, which says "cannot be installed here": the last line says why.
left_out() {
    echo "$1" >&2
    exit 3
}

needs() {
    command -v "$1" >/dev/null || left_out "there is no $1 in PATH"
}

# Calls the function `install` in an empty folder `$installed`, unless that was done with these files and versions.
install_once() {
    local stamp
    stamp=$(cat "$@" | sha256sum)
    [ "$(cat "$installed/stamp" 2>/dev/null)" = "$stamp" ] && return
    rm -rf "$installed"
    mkdir -p "$installed"
    # Not `install ||`: there a step that fails, of a digest say, would not end it.
    install >"$installed.log" 2>&1 &
    wait $! || left_out "failed to install: $(grep . "$installed.log" | tail -n 1) (all of it: $installed.log)"
    echo "$stamp" >"$installed/stamp"
}

# Without arguments a peer is only installed.
installed_only() {
    [ $# -eq 0 ] && exit 0
    [ $# -ge 2 ] || { echo "usage: run [PORT FOLDER [KEY=STREAM …]]" >&2; exit 2; }
    port=$1 data=$2
    shift 2
    keys=("$@")
    mkdir -p "$data"
}
