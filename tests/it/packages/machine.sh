# machine.sh FOLDER SCRIPT [ARGUMENT…]: runs SCRIPT as root of a machine that has all that this one has, and none of
# what it does there is done here: changes go to memory, and are gone with the last of its processes.
#
# FOLDER, where this machine has it, is in the same place there.
set -euo pipefail
folder=$1 script=$2
shift 2
if [ -z "${IN_A_NAMESPACE:-}" ]; then
    export IN_A_NAMESPACE=1
    exec unshare --mount --pid --ipc --uts --net --fork --kill-child --mount-proc bash "$0" "$folder" "$script" "$@"
fi

work=$folder/machine
mkdir -p "$work"
mount -t tmpfs -o size=4g headgate-test "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" headgate-test "$work/root"
ip link set lo up
root=$work/root
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs -o mode=755 headgate-test "$root/run"
mkdir -p "$root$folder"
mount --bind -o ro "$folder" "$root$folder"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C \
    chroot "$root" /bin/bash -euo pipefail -c "$script" "$0" "$@"
