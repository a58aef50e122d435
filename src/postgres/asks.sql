-- What operators ask of the sinks on nodes that do not run them. The node that runs them takes a row, does it, and answers.
-- A restart after a crash empties it, and so does a failover: who asked is told, and asks again.
SET LOCAL search_path = @schema@;
CREATE UNLOGGED TABLE asks (
    id uuid PRIMARY KEY,
    asked timestamptz NOT NULL DEFAULT clock_timestamp(),
    what bytea NOT NULL,
    -- The name of the node that does it.
    taken_by text COLLATE "C",
    answer bytea
);
CREATE INDEX asks_waiting ON asks (asked) WHERE taken_by IS NULL;
