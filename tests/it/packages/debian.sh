# What a test does with two versions of the package: $1 is the folder with them, and with a key.
folder=$1
key=$(cat "$folder/key")
screen=rk_live_for_the_screen_of_a_package
config=/etc/headgate/headgate.toml
unit=/usr/lib/systemd/system/headgate.service

step() { echo "== $1"; }
is() { [ "$1" = "$2" ] || { echo "is: $1, and not: $2" >&2; exit 1; }; }

# As the unit does it, which no systemd runs here.
start() {
    local variables
    mapfile -t variables < <(sed -n 's/^Environment=\(HEADGATE_.*\)/\1/p' $unit | sed 's|%S|/var/lib|')
    is "${#variables[@]}" 2
    local command
    command=$(sed -n 's/^ExecStart=//p' $unit)
    # shellcheck disable=SC2086
    (cd / && exec setpriv --reuid headgate --regid headgate --clear-groups --no-new-privs --bounding-set=-all \
        env "${variables[@]}" $command) >"/tmp/serve.log" 2>&1 &
    daemon=$!
    for _ in $(seq 600); do
        headgate healthcheck >/dev/null 2>&1 && return
        kill -0 $daemon || break
        sleep 0.1
    done
    cat /tmp/serve.log >&2
    exit 1
}
stop() {
    kill -TERM $daemon
    wait $daemon || { cat /tmp/serve.log >&2; exit 1; }
}
item() { curl --fail --silent --show-error --header "Authorization: Bearer $screen" \
    "http://127.0.0.1:8080/api/streams/orders/items/$1"; }
again() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }

# The index of all manuals is not what is tested.
rm -f /var/lib/man-db/auto-update

step 'installed'
dpkg --install "$folder"/headgate_*-1_*.deb
dpkg --verify headgate
is "$(stat --format '%U:%G %a' $config)" 'root:headgate 640'
is "$(stat --format '%U:%G %a' /var/lib/headgate)" 'headgate:headgate 700'
is "$(getent passwd headgate | cut -d: -f6,7)" /var/lib/headgate:/usr/sbin/nologin
is "$(readlink -f /etc/systemd/system/multi-user.target.wants/headgate.service)" $unit
systemd-analyze verify $unit
man --where headgate-serve >/dev/null 2>&1 || test -s /usr/share/man/man1/headgate-serve.1.gz
bash -c 'source /usr/share/bash-completion/completions/headgate && complete -p headgate' >/dev/null
grep --quiet '^#compdef headgate' /usr/share/zsh/vendor-completions/_headgate
test -s /usr/share/fish/vendor_completions.d/headgate.fish
zgrep --quiet 'Apache License' /usr/share/doc/headgate/licenses.gz
runuser --user headgate -- headgate check --config $config
headgate check --service | grep --quiet 'profile production (as the unit headgate.service says)'

step 'used'
cat >>$config <<TOML
[[streams]]
name = "orders"
[[connectors]]
name = "shop"
kind = "ingest"
item_key = "id"
keys = [{ name = "main", stream = "orders", secret = "$key" }]
[[read_keys]]
name = "screen"
streams = ["orders"]
secret = "$screen"
TOML
start
echo '{"id": "before"}' | headgate send --key "$key"
again item before
headgate sink list --service
stop

step 'upgraded'
dpkg --install "$folder"/headgate_*-2_*.deb </dev/null
is "$(dpkg-query --show --showformat '${Version}' headgate | sed 's/.*-//')" 2
grep --quiet '"screen"' $config
is "$(stat --format '%U:%G %a' $config)" 'root:headgate 640'
is "$(stat --format '%U:%G %a' /var/lib/headgate)" 'headgate:headgate 700'
start
item before >/dev/null
echo '{"id": "after"}' | headgate send --key "$key"
again item after
stop

step 'removed'
dpkg --remove headgate
test ! -e /usr/bin/headgate
test ! -e $unit
test -s $config
test -s /var/lib/headgate/pool.db

step 'installed again'
dpkg --install "$folder"/headgate_*-2_*.deb </dev/null
start
item after >/dev/null
stop

step 'purged'
dpkg --purge headgate
test ! -e /var/lib/headgate
test ! -e /etc/headgate
test ! -L /etc/systemd/system/multi-user.target.wants/headgate.service
getent passwd headgate >/dev/null
echo 'every step is done'
