# standby.sh PRIMARY COMMAND…: runs the command of a server that is the standby of PRIMARY. Without data, it copies them first.
set -eu
primary=$1
shift
# The last file of a copy: a promoted server has it, too.
if [ ! -s "$PGDATA/global/pg_control" ]; then
    export PGPASSWORD="$STANDBY_PASSWORD"
    until pg_basebackup --host "$primary" --username standby --pgdata "$PGDATA" \
        --checkpoint fast --wal-method stream --write-recovery-conf; do
        # What a copy that was cut off has left is in the way of the next one.
        find "$PGDATA" -mindepth 1 -delete
        sleep 1
    done
    chmod 0700 "$PGDATA"
fi
exec "$@"
