-- The log of changes of pool.db and catalog.db. Its one row of log_head is their order, and says who runs the sinks.
SET LOCAL search_path = @schema@;
CREATE TABLE log_head (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    head bigint NOT NULL DEFAULT 0,
    -- Of the entry `head`.
    digest bytea NOT NULL DEFAULT '\x00000000000000000000000000000000',
    -- Number of the newest change of pool.db.
    seq bigint NOT NULL DEFAULT 0,
    -- Newest entry that changed catalog.db.
    catalog bigint NOT NULL DEFAULT 0,
    -- What a version must know to apply what comes behind the head, and the version that raised it.
    format int NOT NULL DEFAULT 0,
    version text NOT NULL DEFAULT '',
    -- Up to here every sink has the accepted requests.
    low_water bigint NOT NULL DEFAULT 0,
    -- Newest entry of which there is a whole copy.
    base bigint NOT NULL DEFAULT 0,
    -- Who runs the sinks, and on which connection; beat is raised by each of its entries and renewals.
    owner uuid,
    owner_pid int,
    owner_start timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    beat bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO log_head DEFAULT VALUES;
CREATE TABLE log (
    g int NOT NULL,
    n bigint NOT NULL,
    seq bigint NOT NULL,
    node uuid NOT NULL,
    nonce bigint NOT NULL,
    digest bytea NOT NULL,
    change bytea NOT NULL
) PARTITION BY LIST (g);
ALTER TABLE log ALTER change SET STORAGE EXTERNAL;
-- Whole copies of both files at one entry, in parts. One without parts is not whole yet.
CREATE TABLE bases (
    id uuid PRIMARY KEY,
    n bigint NOT NULL,
    digest bytea NOT NULL,
    format int NOT NULL,
    pid int NOT NULL,
    started timestamptz NOT NULL,
    parts int[]
);
CREATE TABLE base_parts (
    id uuid NOT NULL REFERENCES bases ON DELETE CASCADE,
    file smallint NOT NULL,
    part int NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (id, file, part)
);
ALTER TABLE base_parts ALTER bytes SET STORAGE EXTERNAL;
-- Which base a connection is loading.
CREATE TABLE base_loads (
    id uuid NOT NULL,
    pid int NOT NULL,
    started timestamptz NOT NULL,
    PRIMARY KEY (pid, started, id)
);
-- The nodes, a row for each life of one, written by itself each second. Whether one lives is seen by its beat, which rises.
CREATE TABLE nodes (
    node uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    version text NOT NULL,
    address text NOT NULL,
    may_run_sinks bool NOT NULL,
    -- The newest format of the log that it knows.
    format int NOT NULL,
    -- Digests of its declared configuration and of its plugins.
    config bytea NOT NULL,
    plugins bytea NOT NULL,
    -- Of the admin tokens that it accepts; null: it does not know yet.
    tokens bytea,
    -- Newest entry, and newest one that changed catalog.db, that its copies have.
    entry bigint NOT NULL,
    catalog bigint NOT NULL,
    delay_ms bigint NOT NULL,
    renderers bigint NOT NULL,
    beat bigint NOT NULL,
    seen timestamptz NOT NULL,
    pid int NOT NULL,
    started timestamptz NOT NULL
) WITH (fillfactor = 20);

-- What nodes that live use of the rates of keys, in parts of 65,536. Of a rate that nobody comes near there is no row: all
-- nodes have the same of it.
CREATE TABLE rate_shares (
    id bytea NOT NULL,
    node uuid NOT NULL,
    share int NOT NULL,
    -- Units a second that the node was asked for.
    wanted bigint NOT NULL,
    PRIMARY KEY (id, node)
) WITH (fillfactor = 20);
-- Bytes that each life of a node stored of each key on a day since 1970.
CREATE TABLE key_bytes (
    day int NOT NULL,
    key bytea NOT NULL,
    node uuid NOT NULL,
    bytes bigint NOT NULL,
    changed timestamptz NOT NULL,
    PRIMARY KEY (day, key, node)
) WITH (fillfactor = 50);
-- What a data directory had that was moved into this cluster: moved in a second time, it is known again.
CREATE TABLE moved_in (
    part text COLLATE "C" PRIMARY KEY,
    rows bigint NOT NULL,
    digest bytea NOT NULL
);

-- The digest before the first entry until somebody has begun the log, which gives it one that tells it from every other.
CREATE FUNCTION no_digest() RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT '\x00000000000000000000000000000000'::bytea $$;

-- Whether a connection is there still. Of another role's only the number of the process can be seen.
CREATE FUNCTION is_connected(p_pid int, p_start timestamptz) RETURNS bool LANGUAGE sql STABLE SET search_path = @schema@ AS $$
  SELECT EXISTS (SELECT FROM pg_stat_get_activity(p_pid) a WHERE coalesce(a.backend_start = p_start, true)) $$;

CREATE FUNCTION own_start() RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid()) $$;

-- What a node says of itself, and what all have said. The answer comes when the row is committed, so what it reads is on the
-- standby, too.
CREATE FUNCTION beat(p_node uuid, p_name text, p_version text, p_address text, p_may_run_sinks bool, p_format int,
  p_config bytea, p_plugins bytea, p_tokens bytea, p_entry bigint, p_catalog bigint, p_delay_ms bigint, p_renderers bigint)
RETURNS TABLE (node uuid, name text, version text, address text, may_run_sinks bool, format int, config bytea, plugins bytea,
  tokens bytea, entry bigint, catalog bigint, delay_ms bigint, renderers bigint, beat bigint, seen_ms bigint, age_ms bigint,
  generation int, epoch bigint, owner uuid, server text, standbys text[])
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
#variable_conflict use_column
BEGIN
  INSERT INTO nodes AS n VALUES (p_node, p_name, p_version, p_address, p_may_run_sinks, p_format, p_config, p_plugins,
      p_tokens, p_entry, p_catalog, p_delay_ms, p_renderers, 1, clock_timestamp(), pg_backend_pid(), own_start())
    ON CONFLICT (node) DO UPDATE SET name = p_name, version = p_version, address = p_address, may_run_sinks = p_may_run_sinks,
      format = p_format, config = p_config, plugins = p_plugins, tokens = p_tokens, entry = p_entry, catalog = p_catalog, delay_ms = p_delay_ms,
      renderers = p_renderers, beat = n.beat + 1, seen = clock_timestamp(), pid = pg_backend_pid(), started = own_start();
  DELETE FROM nodes n WHERE n.seen < clock_timestamp() - interval '30 hours';
  RETURN QUERY SELECT n.node, n.name, n.version, n.address, n.may_run_sinks, n.format, n.config, n.plugins, n.tokens, n.entry, n.catalog,
      n.delay_ms, n.renderers, n.beat, (extract(epoch FROM n.seen) * 1000)::bigint,
      greatest((extract(epoch FROM clock_timestamp() - n.seen) * 1000)::bigint, 0),
      c.g, c.epoch, h.owner, current_setting('server_version'),
      -- Who may not see their state is told of none.
      (SELECT coalesce(array_agg(DISTINCT r.application_name), '{}') FROM pg_stat_replication r WHERE r.sync_state IN ('sync', 'quorum'))
    FROM nodes n, cluster c, log_head h;
END $f$;

-- Entry p_expected + 1. Only who settles compares the fence, p_fence; others pass null. What fails says why: HG003 another
-- node runs the sinks, HG004 entries are missing here, HG005 a newer version has written, HG008 the copy has another entry
-- than the log, HG011 nobody can say any more whether this very entry was appended. The message of HG005 is for programs: the
-- format, a blank, the version that is needed.
CREATE FUNCTION append(p_node uuid, p_fence bigint, p_expected bigint, p_before bytea, p_digest bytea, p_seq bigint,
  p_low_water bigint, p_format int, p_nonce bigint, p_is_catalog bool, p_change bytea) RETURNS void
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
DECLARE h log_head;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(12121, hashtext('@schema@'));  -- the generation stays until this is committed
  UPDATE log_head SET head = head + 1, digest = p_digest, seq = greatest(seq, p_seq),
      catalog = CASE WHEN p_is_catalog THEN head + 1 ELSE catalog END, low_water = greatest(low_water, p_low_water),
      beat = CASE WHEN p_fence IS NULL THEN beat ELSE beat + 1 END
    WHERE head = p_expected AND digest = p_before AND format <= p_format
      AND (p_fence IS NULL OR (fence = p_fence AND owner = p_node));
  IF FOUND THEN
    INSERT INTO log SELECT c.g, p_expected + 1, p_seq, p_node, p_nonce, p_digest, p_change FROM cluster c;
    RETURN;
  END IF;
  -- Waits for an attempt that is under way. An UPDATE, not a SELECT: its own commit waits for the standby.
  UPDATE log_head SET seq = seq RETURNING * INTO h;
  IF EXISTS (SELECT FROM log l WHERE l.n = p_expected + 1 AND l.node = p_node AND l.nonce = p_nonce) THEN RETURN; END IF;
  IF h.format > p_format THEN
    RAISE EXCEPTION '% %', h.format, h.version USING ERRCODE = 'HG005';
  END IF;
  IF h.head < p_expected OR (h.head = p_expected AND h.digest <> p_before) THEN
    RAISE EXCEPTION 'entry % is another one here', p_expected USING ERRCODE = 'HG008';
  END IF;
  IF h.head > p_expected THEN
    IF NOT EXISTS (SELECT FROM log l WHERE l.n = p_expected + 1) THEN
      RAISE EXCEPTION 'entry % is kept no longer', p_expected + 1 USING ERRCODE = 'HG011';
    END IF;
    RAISE EXCEPTION 'the log is at entry %', h.head USING ERRCODE = 'HG004';
  END IF;
  RAISE EXCEPTION 'another node runs the sinks' USING ERRCODE = 'HG003';
END $f$;

-- The same for an entry behind which the log has a newer format; HG004: it has it already. It counts as a change of
-- catalog.db: a node that does not know it accepts nothing any more.
CREATE FUNCTION raise_format(p_node uuid, p_expected bigint, p_before bytea, p_digest bytea, p_format int, p_version text,
  p_nonce bigint, p_change bytea) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM append(p_node, NULL, p_expected, p_before, p_digest, 0, 0, p_format, p_nonce, true, p_change);
  UPDATE log_head SET format = p_format, version = p_version WHERE format < p_format;
  IF NOT FOUND THEN RAISE EXCEPTION 'the log has format % already', p_format USING ERRCODE = 'HG004'; END IF;
END $f$;

-- Takes the sinks: at once if nobody has them or the owner's connection is gone; from a living owner if p_beat, which the
-- node has seen for long enough by its own clock, is still its beat. Answers the fence, or null. The same node gets the same
-- fence again.
CREATE FUNCTION claim(p_node uuid, p_beat bigint) RETURNS bigint LANGUAGE sql SET search_path = @schema@ AS $$
  UPDATE log_head h SET beat = h.beat + 1, fence = CASE WHEN h.owner = p_node THEN h.fence ELSE h.fence + 1 END,
      owner = p_node, owner_pid = pg_backend_pid(), owner_start = own_start()
    WHERE h.owner IS NULL OR h.owner = p_node OR h.beat = p_beat OR NOT is_connected(h.owner_pid, h.owner_start)
    RETURNING h.fence $$;

-- The owner lives, on this connection.
CREATE FUNCTION renew(p_node uuid, p_fence bigint) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  UPDATE log_head h SET beat = h.beat + 1, owner_pid = pg_backend_pid(), owner_start = own_start()
    WHERE h.owner = p_node AND h.fence = p_fence;
  IF NOT FOUND THEN RAISE EXCEPTION 'another node runs the sinks' USING ERRCODE = 'HG003'; END IF;
END $f$;

-- The owner lets go of the sinks.
CREATE FUNCTION resign(p_node uuid, p_fence bigint) RETURNS void LANGUAGE sql SET search_path = @schema@ AS $$
  UPDATE log_head SET owner = NULL, beat = beat + 1 WHERE owner = p_node AND fence = p_fence $$;

-- The owner gives the sinks to another node: nobody else claims them, unless that one is silent.
CREATE FUNCTION hand_over(p_node uuid, p_fence bigint, p_to uuid) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  UPDATE log_head SET owner = p_to, fence = fence + 1, beat = beat + 1 WHERE owner = p_node AND fence = p_fence;
  IF NOT FOUND THEN RAISE EXCEPTION 'another node runs the sinks' USING ERRCODE = 'HG003'; END IF;
END $f$;

-- Begins to store a whole copy. The log must have had its last entry: what differs is nobody's base.
CREATE FUNCTION begin_base(p_id uuid, p_n bigint, p_digest bytea, p_format int) RETURNS void
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  IF NOT EXISTS (SELECT FROM log_head WHERE head = p_n AND (digest = p_digest OR digest = no_digest()))
     AND NOT EXISTS (SELECT FROM log WHERE n = p_n AND digest = p_digest) THEN
    RAISE EXCEPTION 'entry % is another one here', p_n USING ERRCODE = 'HG008';
  END IF;
  INSERT INTO bases VALUES (p_id, p_n, p_digest, p_format, pg_backend_pid(), own_start(), NULL) ON CONFLICT DO NOTHING;
END $f$;

-- The copy is whole: it has so many parts of each file. The first of all gives the log its format, and the version that it
-- needs.
CREATE FUNCTION end_base(p_id uuid, p_parts int[], p_version text) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
DECLARE stored int[]; at bigint; of bytea; made int;
BEGIN
  SELECT array_agg((SELECT count(*)::int FROM base_parts p WHERE p.id = p_id AND p.file = f.ord - 1) ORDER BY f.ord)
    INTO stored FROM unnest(p_parts) WITH ORDINALITY f(parts, ord);
  UPDATE bases SET parts = p_parts WHERE id = p_id AND stored = p_parts RETURNING n, digest, format INTO at, of, made;
  IF NOT FOUND THEN RAISE EXCEPTION 'the base lacks parts' USING ERRCODE = 'HG012'; END IF;
  UPDATE log_head SET base = greatest(base, at), digest = CASE WHEN head = 0 THEN of ELSE digest END,
      format = CASE WHEN digest = no_digest() THEN made ELSE format END,
      version = CASE WHEN digest = no_digest() THEN p_version ELSE version END
    WHERE at > 0 OR digest IN (of, no_digest());
  IF NOT FOUND THEN RAISE EXCEPTION 'another node has begun the log' USING ERRCODE = 'HG008'; END IF;
END $f$;

-- Begins to load the newest whole copy of a format that is known, which stays until the connection ends or loads another.
CREATE FUNCTION load_base(p_format int) RETURNS TABLE (id uuid, n bigint, digest bytea, parts int[])
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
#variable_conflict use_column
DECLARE b bases;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(12124, hashtext('@schema@'));
  SELECT * INTO b FROM bases o WHERE o.parts IS NOT NULL AND o.format <= p_format ORDER BY o.n DESC LIMIT 1;
  IF NOT FOUND THEN RETURN; END IF;
  DELETE FROM base_loads WHERE pid = pg_backend_pid();
  INSERT INTO base_loads VALUES (b.id, pg_backend_pid(), own_start());
  RETURN QUERY SELECT b.id, b.n, b.digest, b.parts;
END $f$;

-- Drops copies that are older than the newest and that nobody loads, and those whose maker is gone.
CREATE FUNCTION drop_bases() RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM pg_advisory_xact_lock(12124, hashtext('@schema@'));
  DELETE FROM base_loads WHERE NOT is_connected(pid, started);
  DELETE FROM bases b WHERE b.id NOT IN (SELECT id FROM base_loads)
    AND CASE WHEN b.parts IS NULL THEN NOT is_connected(b.pid, b.started)
        ELSE EXISTS (SELECT FROM bases o WHERE o.parts IS NOT NULL AND (o.n, o.id) > (b.n, b.id)) END;
END $f$;

-- Generations whose part of the log nobody needs: every base is behind it, and p_kept_ms were lived since it ended, in which
-- an attempt whose answer was lost asks for its entry.
CREATE FUNCTION log_is_over(p_kept_ms bigint) RETURNS SETOF int LANGUAGE plpgsql STABLE SET search_path = @schema@ AS $f$
BEGIN
  RETURN QUERY SELECT o.g FROM generations o JOIN generations s ON s.g = o.g + 1, cluster c
    WHERE o.g < c.g AND s.lived_ms <= c.lived_ms - p_kept_ms AND to_regclass('log_' || o.g) IS NOT NULL
      AND coalesce((SELECT max(l.n) FROM log l WHERE l.g = o.g), 0)
        <= (SELECT coalesce(min(b.n), 0) FROM bases b WHERE b.parts IS NOT NULL);
END $f$;

-- What a node uses of the limits of keys: its shares of rates in place of those it had published, and what it stored.
CREATE FUNCTION publish_limits(p_node uuid, p_ids bytea[], p_shares int[], p_wanted bigint[], p_withdrawn bytea[],
  p_keys bytea[], p_days int[], p_bytes bigint[]) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  DELETE FROM rate_shares s WHERE s.node = p_node AND s.id = ANY (p_withdrawn);
  DELETE FROM rate_shares s WHERE NOT EXISTS (SELECT FROM nodes n WHERE n.node = s.node);
  INSERT INTO rate_shares SELECT u.id, p_node, u.share, u.wanted FROM unnest(p_ids, p_shares, p_wanted) AS u (id, share, wanted)
    ON CONFLICT (id, node) DO UPDATE SET share = excluded.share, wanted = excluded.wanted;
  INSERT INTO key_bytes SELECT u.day, u.key, p_node, u.bytes, clock_timestamp()
      FROM unnest(p_keys, p_days, p_bytes) AS u (key, day, bytes)
    ON CONFLICT (day, key, node) DO UPDATE SET bytes = excluded.bytes, changed = excluded.changed;
  DELETE FROM key_bytes s WHERE s.day < (SELECT max(d) FROM unnest(p_days) AS d) - 1;
END $f$;
