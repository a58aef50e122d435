# Run by the image of PostgreSQL when db1 has no data yet: the role of the nodes, their database, and the standby.
set -eu
psql --username postgres --set ON_ERROR_STOP=1 \
    --set nodes="$HEADGATE_PASSWORD" --set standby="$STANDBY_PASSWORD" <<'SQL'
CREATE ROLE headgate LOGIN PASSWORD :'nodes';
GRANT pg_monitor TO headgate;
CREATE DATABASE headgate OWNER headgate;
CREATE ROLE standby LOGIN REPLICATION PASSWORD :'standby';
-- The last one: from the next start on, each commit waits for db2.
ALTER SYSTEM SET synchronous_standby_names = 'db2';
SQL
echo 'host replication standby all scram-sha-256' >> "$PGDATA/pg_hba.conf"
