# servers.sh PROGRAMS FOLDER: lays out images with the PostgreSQL in PROGRAMS and the Caddy of this machine, which do what the
# Compose file of examples/deploy/cluster expects of the published ones. FOLDER/postgres and FOLDER/caddy are what an image is
# built of.
set -euo pipefail
programs=$1 folder=$2
umask 022

# Files of this machine, in their places, with the libraries that they are linked with.
copy() {
    local root=$1 part file library
    shift
    for part in bin lib lib64; do
        mkdir -p "$root/usr/$part"
        [ -e "$root/$part" ] || ln -s "usr/$part" "$root/$part"
    done
    for file; do
        install -D "$file" "$root$file"
        ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
            [ -e "$root$library" ] || install -D "$library" "$root$library"
        done
    done
    mkdir -p "$root/etc"
    echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
    install -d -m 1777 "$root/tmp"
}

# An archive keeps owners, which are those of new volumes.
pack() {
    mkdir "$folder/$1"
    tar -C "$folder/root-$1" -cf "$folder/$1/root.tar" .
    rm -r "$folder/root-$1"
    { printf '%s\n' 'FROM scratch' 'ADD root.tar /'; cat; } > "$folder/$1/Containerfile"
}

root=$folder/root-postgres
for program in bash cat chmod chown env find id mkdir setpriv sh sleep true; do
    copy "$root" "$(type -P "$program")"
done
for program in initdb pg_basebackup pg_ctl postgres psql; do
    copy "$root" "$programs/$program"
done
libraries=$("$programs/pg_config" --pkglibdir)
for library in dict_snowball libpqwalreceiver plpgsql; do
    copy "$root" "$libraries/$library.so"
done
share=$("$programs/pg_config" --sharedir)
mkdir -p "$root${share%/*}"
cp -RL "$share" "$root$share"
[ ! -e /usr/share/zoneinfo/UTC ] || install -D -m 0644 /usr/share/zoneinfo/UTC "$root/usr/share/zoneinfo/UTC"
echo 'root:x:0:0::/:/bin/sh' > "$root/etc/passwd"
echo 'postgres:x:999:999::/var/lib/postgresql:/bin/sh' >> "$root/etc/passwd"
echo 'postgres:x:999:' > "$root/etc/group"
install -d -o 999 -g 999 -m 1777 "$root/var/lib/postgresql/data"
install -d -o 999 -g 999 -m 3777 "$root/var/run/postgresql"
mkdir -p "$root/docker-entrypoint-initdb.d" "$root/usr/local/bin"
cat > "$root/usr/local/bin/docker-entrypoint.sh" <<'EOF'
#!/usr/bin/env bash
set -eo pipefail
if [ "$1" = postgres ]; then
    if [ "$(id -u)" = 0 ]; then
        chown -R postgres "$PGDATA"
        exec setpriv --reuid=999 --regid=999 --clear-groups "$0" "$@"
    fi
    chmod 0700 "$PGDATA"
    if [ ! -s "$PGDATA/PG_VERSION" ]; then
        initdb --username=postgres --pwfile=<(echo "$POSTGRES_PASSWORD")
        echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
        echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
        pg_ctl --options "-c listen_addresses=''" --wait start
        for file in /docker-entrypoint-initdb.d/*; do
            . "$file"
        done
        pg_ctl --mode fast --wait stop
    fi
fi
exec "$@"
EOF
chmod 0755 "$root/usr/local/bin/docker-entrypoint.sh"
pack postgres <<EOF
ENV PATH=/usr/local/bin:$programs:/usr/bin:/bin PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["docker-entrypoint.sh"]
STOPSIGNAL SIGINT
CMD ["postgres"]
EOF

root=$folder/root-caddy
caddy=$(type -P caddy)
copy "$root" "$caddy"
pack caddy <<EOF
ENV XDG_CONFIG_HOME=/tmp XDG_DATA_HOME=/tmp
CMD ["$caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
EOF
