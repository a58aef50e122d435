# Starts db2 as the standby of db1. Its name there is its cluster_name.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    export PGPASSWORD="$STANDBY_PASSWORD"
    until pg_basebackup --host db1 --username standby --pgdata "$PGDATA" --wal-method stream --write-recovery-conf; do
        # What a copy that was cut off has left is in the way of the next one.
        find "$PGDATA" -mindepth 1 -delete
        sleep 1
    done
    chmod 0700 "$PGDATA"
fi
exec "$@" -c cluster_name=db2
