-- The log of changes of pool.db and catalog.db. Its one row of log_head is their order, and says who runs the sinks.
SET LOCAL search_path = @schema@;
CREATE TABLE log_head (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    head bigint NOT NULL DEFAULT 0,
    digest bytea NOT NULL DEFAULT '',
    -- Number of the newest change of pool.db.
    seq bigint NOT NULL DEFAULT 0,
    -- Newest entry that changed catalog.db.
    catalog bigint NOT NULL DEFAULT 0,
    format int NOT NULL DEFAULT 0,
    -- Up to here every sink has the accepted requests.
    low_water bigint NOT NULL DEFAULT 0,
    -- Newest entry of which there is a whole copy.
    base bigint NOT NULL DEFAULT 0,
    -- Who runs the sinks; raised by each of its entries and renewals.
    owner uuid,
    fence bigint NOT NULL DEFAULT 0,
    beat bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO log_head DEFAULT VALUES;
