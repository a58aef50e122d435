-- The journal: requests, payloads, claims. One number partitions everything, the generation g: about six hours of time
-- lived. All numbers of g lie below all of g + 1, so what is old goes a table at a time, and nothing is vacuumed.
SET LOCAL search_path = @schema@;
CREATE TABLE cluster (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    -- Of the tables; the oldest one that a version may know to use them, and the version that raised that.
    format int NOT NULL,
    oldest int NOT NULL DEFAULT 1,
    needs text NOT NULL DEFAULT '',
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    g int NOT NULL,
    -- What is added to a transaction's number, so that numbers rise over servers.
    xid_base bigint NOT NULL DEFAULT 0,
    -- How much time the nodes have lived, and what the time of day was then when it was last trusted.
    lived_ms bigint NOT NULL DEFAULT 0,
    trusted_lived_ms bigint,
    trusted_unix_ms bigint,
    -- Positions of renderers have this epoch, since the log has lost changes; 0: it has lost none.
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
CREATE TABLE generations (
    g int PRIMARY KEY,
    first_seq bigint NOT NULL,
    -- Time lived when it began.
    lived_ms bigint NOT NULL
);
-- The last group of each life of a node, and when it was stored: whether a group whose answer was lost is committed.
CREATE TABLE writers (
    node uuid PRIMARY KEY,
    last_group bigint NOT NULL DEFAULT 0,
    last_base bigint NOT NULL DEFAULT 0,
    last_g int NOT NULL DEFAULT 0,
    lived_ms bigint NOT NULL,
    -- The name of the node, which outlives its process; and the number that stands for this life in `requests`.
    name text COLLATE "C" NOT NULL DEFAULT '',
    number int GENERATED ALWAYS AS IDENTITY
) WITH (fillfactor = 20);
CREATE TABLE requests (
    g int NOT NULL,
    -- Who stored it: `writers.number`. Here it takes no bytes, because seq begins at a multiple of 8. Null: moved in.
    writer int,
    seq bigint NOT NULL,
    request_id uuid NOT NULL,
    received_ms bigint NOT NULL,
    bytes bigint NOT NULL,
    items int NOT NULL,
    outcome smallint NOT NULL,
    endpoint smallint NOT NULL,
    http_status smallint NOT NULL,
    connector text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    client text COLLATE "C" NOT NULL,
    item_key text COLLATE "C",
    idempotency_key text COLLATE "C",
    duplicate_of uuid,
    errors text COLLATE "C",
    headers text,
    sent_again_from uuid,
    sender text,
    delivery text COLLATE "C"
) PARTITION BY LIST (g);
CREATE TABLE payloads (
    g int NOT NULL,
    seq bigint NOT NULL,
    crc32 bigint NOT NULL,
    outcome smallint NOT NULL,
    received_ms bigint NOT NULL,
    arrived_ms bigint NOT NULL,
    request_id uuid NOT NULL,
    stream text COLLATE "C" NOT NULL,
    items bytea NOT NULL
) PARTITION BY LIST (g);
ALTER TABLE payloads ALTER items SET STORAGE EXTERNAL;
CREATE TABLE claims (
    g int NOT NULL,
    scope uuid NOT NULL,
    request_id uuid NOT NULL,
    digest bigint NOT NULL,
    lived_ms bigint NOT NULL,
    items int NOT NULL
) PARTITION BY LIST (g);
-- Bodies of refused requests.
CREATE TABLE bodies (
    seq bigint PRIMARY KEY,
    lived_ms bigint NOT NULL,
    connector text COLLATE "C" NOT NULL,
    bytes bigint NOT NULL,
    test bool NOT NULL,
    stream text NOT NULL,
    content_type bytea,
    item_key bytea,
    idempotency_key bytea,
    headers text,
    body bytea NOT NULL
);
ALTER TABLE bodies ALTER body SET STORAGE EXTERNAL;
-- Payloads that could not be read, for a person to look at.
CREATE TABLE quarantine (
    seq bigint PRIMARY KEY,
    reason text NOT NULL,
    stream text COLLATE "C" NOT NULL,
    outcome smallint NOT NULL,
    crc32 bigint NOT NULL,
    items bytea NOT NULL
);

-- Makes the tables of a generation, ahead of its turn.
CREATE PROCEDURE shelf(p_g int) LANGUAGE plpgsql SET search_path = @schema@ AS $$
DECLARE t text; own text; more text; one text;
BEGIN
  PERFORM pg_advisory_xact_lock(12123, hashtext('@schema@'));
  FOR t, own, more IN VALUES
      ('requests', 'PRIMARY KEY (seq)', '(request_id);(connector, seq);(outcome, connector, seq) WHERE outcome <> 0;(sent_again_from) WHERE sent_again_from IS NOT NULL'),
      ('payloads', 'PRIMARY KEY (seq)', ''),
      ('claims', 'PRIMARY KEY (scope)', ''),
      ('log', 'PRIMARY KEY (n)', '') LOOP
    CONTINUE WHEN to_regclass(t || '_' || p_g) IS NOT NULL;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING STORAGE, %s, CHECK (g = %s))', t || '_' || p_g, t, own, p_g);
    FOR one IN SELECT unnest(string_to_array(nullif(more, ''), ';')) LOOP
      EXECUTE format('CREATE INDEX ON %I %s', t || '_' || p_g, one);
    END LOOP;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', t, t || '_' || p_g, p_g);
  END LOOP;
END $$;

-- Ends a generation. No accept is under way meanwhile: each holds the lock until it is committed.
CREATE FUNCTION turn(p_from int) RETURNS int LANGUAGE plpgsql SET search_path = @schema@ AS $$
DECLARE now_g int;
BEGIN
  CALL shelf(p_from + 1);                                         -- most often it is there
  PERFORM pg_advisory_xact_lock(12121, hashtext('@schema@'));
  UPDATE cluster SET g = g + 1 WHERE g = p_from RETURNING g INTO now_g;
  IF FOUND THEN
    INSERT INTO generations
      SELECT now_g, (pg_current_xact_id()::text::bigint + xid_base) << 12, lived_ms FROM cluster;
  END IF;
  RETURN now_g;
END $$;

-- Has the positions of renderers begin anew: the newest changes may be lost, and their numbers are given again.
CREATE FUNCTION note_loss() RETURNS void LANGUAGE sql SET search_path = @schema@ AS $$
  UPDATE cluster SET epoch = 1 + (random() * 9007199254740990)::bigint $$;

-- Compares this server with the one that the cluster was on. Another server, and one that was promoted or set back, gives
-- numbers above all that were given: receivers would take the others for repeats.
CREATE FUNCTION arrive(p_may_have_lost bool) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $$
DECLARE own bigint; line bigint; above bigint;
BEGIN
  SELECT system_identifier INTO own FROM pg_control_system();
  line := ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint;
  PERFORM FROM cluster WHERE system_identifier = own AND timeline = line;
  IF FOUND THEN RETURN; END IF;
  PERFORM pg_advisory_xact_lock(12121, hashtext('@schema@'));
  PERFORM FROM cluster WHERE system_identifier = own AND timeline = line;
  IF FOUND THEN RETURN; END IF;
  IF EXISTS (SELECT FROM cluster WHERE system_identifier <> own) THEN
    SELECT greatest((SELECT coalesce(max(seq), 0) FROM requests), (SELECT max(first_seq) FROM generations)) >> 12 INTO above;
    UPDATE cluster SET xid_base = greatest(xid_base, above + 1 - pg_current_xact_id()::text::bigint);
  END IF;
  PERFORM note_loss() FROM cluster WHERE p_may_have_lost OR system_identifier <> own;
  UPDATE cluster SET xid_base = xid_base + (1 << 28), system_identifier = own, timeline = line;
END $$;

-- Has numbers go on above one that somebody has seen, should the newest transactions be lost.
CREATE FUNCTION raise_above(p_seq bigint) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $$
BEGIN
  IF p_seq >> 12 < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint + xid_base FROM cluster) THEN RETURN; END IF;
  PERFORM pg_advisory_xact_lock(12121, hashtext('@schema@'));
  UPDATE cluster SET xid_base = greatest(xid_base, (p_seq >> 12) + 1 - pg_current_xact_id()::text::bigint);
END $$;

-- One group of requests of one node, in one transaction. A request may hold two claims, p_scope and p_second: whichever is
-- held makes it a repeat. The node never puts two requests that share a scope into one group. p_arrived is null for what is
-- only logged. p_lived: the time lived as the node has it.
CREATE FUNCTION accept(p_node uuid, p_group bigint, p_catalog bigint, p_lived bigint,
  p_id uuid[], p_received bigint[], p_connector text[], p_stream text[], p_outcome smallint[], p_endpoint smallint[],
  p_status smallint[], p_items int[], p_bytes bigint[], p_key text[], p_client text[], p_item_key text[], p_idem text[],
  p_error text[], p_headers text[], p_again uuid[], p_sender text[], p_delivery text[],
  p_crc bigint[], p_arrived bigint[], p_body bytea[], p_scope uuid[], p_second uuid[], p_digest bigint[])
RETURNS TABLE (ord int, seq bigint, first_id uuid, first_items int, differs bool)
LANGUAGE plpgsql SET search_path = @schema@ SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $f$
#variable_conflict use_column
DECLARE rounds int := 0; lived bigint; n int := cardinality(p_id); base bigint; gen int; own int;
  dup_o int[]; dup_id uuid[]; dup_items int[]; dup_differs bool[]; made int; want int;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(12121, hashtext('@schema@'));  -- the generation stays until this is committed
  PERFORM FROM writers w WHERE w.node = p_node FOR UPDATE;        -- waits for an attempt of this node; what follows sees its end
  UPDATE writers w SET last_group = p_group, last_g = c.g, lived_ms = greatest(p_lived, c.lived_ms), last_base = (pg_current_xact_id()::text::bigint + c.xid_base) << 12
    FROM cluster c, log_head h WHERE w.node = p_node AND w.last_group = p_group - 1 AND h.catalog = p_catalog
  RETURNING w.last_base, c.g, greatest(p_lived, c.lived_ms), w.number INTO base, gen, lived, own;
  IF NOT FOUND THEN
    -- An UPDATE, not a SELECT: its own commit waits for the standby.
    UPDATE writers w SET last_group = p_group WHERE w.node = p_node AND w.last_group = p_group RETURNING w.last_base, w.last_g INTO base, gen;
    IF FOUND THEN                                                 -- committed before, the answer was lost
      IF (SELECT array_agg(r.request_id ORDER BY r.seq) FROM requests r WHERE r.g = gen AND r.seq > base AND r.seq < base + 4095) IS DISTINCT FROM p_id THEN
        RAISE EXCEPTION 'group % holds other requests', p_group USING ERRCODE = 'HG006';
      END IF;
      RETURN QUERY SELECT (r.seq - base)::int, r.seq, r.duplicate_of, r.items, r.duplicate_of IS NOT NULL AND r.errors IS NOT NULL
        FROM requests r WHERE r.g = gen AND r.seq > base AND r.seq < base + 4095;
      RETURN;
    END IF;
    IF EXISTS (SELECT FROM writers w WHERE w.node = p_node AND w.last_group = p_group - 1) THEN
      RAISE EXCEPTION 'the catalog has changed' USING ERRCODE = 'HG002';
    END IF;
    RAISE EXCEPTION 'this node has been sent away' USING ERRCODE = 'HG001';
  END IF;
  IF p_scope IS NOT NULL THEN
    LOOP                           -- a second round only where another node committed an equal claim meanwhile: a new snapshot sees it
      -- Two requests may hold them: the first claim decides, whatever the order in which rows are sorted.
      WITH mine AS (SELECT o::int, s, d, 1 AS claim FROM unnest(p_scope, p_digest) WITH ORDINALITY u(s, d, o) WHERE s IS NOT NULL
                    UNION ALL SELECT o::int, s, d, 2 FROM unnest(p_second, p_digest) WITH ORDINALITY u(s, d, o) WHERE s IS NOT NULL),
      held AS (SELECT DISTINCT ON (m.o) m.o, c.request_id, c.items, c.digest <> m.d AS differs FROM mine m, LATERAL (
                SELECT * FROM claims c WHERE c.scope = m.s AND c.g BETWEEN gen - 5 AND gen AND c.lived_ms > lived - 86460000
                  AND c.request_id <> ALL (p_id) LIMIT 1) c ORDER BY m.o, m.claim)
      SELECT array_agg(h.o), array_agg(h.request_id), array_agg(h.items), array_agg(h.differs)
        INTO dup_o, dup_id, dup_items, dup_differs FROM held h;
      WITH mine AS (SELECT o::int, s, d FROM unnest(p_scope, p_digest) WITH ORDINALITY u(s, d, o) WHERE s IS NOT NULL
                    UNION ALL SELECT o::int, s, d FROM unnest(p_second, p_digest) WITH ORDINALITY u(s, d, o) WHERE s IS NOT NULL),
      made AS (INSERT INTO claims AS k (g, scope, request_id, digest, lived_ms, items)
               SELECT gen, m.s, p_id[m.o], m.d, lived, p_items[m.o] FROM mine m WHERE dup_o IS NULL OR m.o <> ALL (dup_o)
               ORDER BY m.s ON CONFLICT DO NOTHING RETURNING k.scope)   -- one order of keys: groups wait for each other, never in a circle
      SELECT (SELECT count(*) FROM made), (SELECT count(*) FROM mine m WHERE dup_o IS NULL OR m.o <> ALL (dup_o)) INTO made, want;
      EXIT WHEN made = want;
      -- Some are another's, committed while this one waited, or have run out in this generation. Whoever lost one claim gives
      -- back the other, and all look again.
      DELETE FROM claims k WHERE k.g = gen
        AND (k.request_id = ANY (p_id) OR (k.lived_ms <= lived - 86460000 AND k.scope = ANY (p_scope || p_second)));
      rounds := rounds + 1;
      IF rounds > 20 THEN RAISE EXCEPTION 'the claims of a group meet each other' USING ERRCODE = 'HG007'; END IF;
    END LOOP;
  END IF;
  INSERT INTO requests
    SELECT gen, own, base + r.o, r.id, r.received, r.bytes, coalesce(d.items, r.items), CASE WHEN d.o IS NULL THEN r.outcome ELSE 2 END,
           r.endpoint, r.status, r.connector, r.stream, r.key, r.client, r.item_key, r.idem, d.first,
           CASE WHEN d.differs THEN 'the payload differs from the one that this idempotency key first came with; the first one stands' ELSE r.error END,
           r.headers, r.again, r.sender, r.delivery
      FROM unnest(p_id, p_received, p_connector, p_stream, p_outcome, p_endpoint, p_status, p_items, p_bytes, p_key, p_client,
                  p_item_key, p_idem, p_error, p_headers, p_again, p_sender, p_delivery)
           WITH ORDINALITY r(id, received, connector, stream, outcome, endpoint, status, items, bytes, key, client,
                             item_key, idem, error, headers, again, sender, delivery, o)
      LEFT JOIN unnest(dup_o, dup_id, dup_items, dup_differs) d(o, first, items, differs) ON d.o = r.o;
  INSERT INTO payloads
    SELECT gen, base + r.o, r.crc, r.outcome, r.received, r.arrived, r.id, r.stream, r.body
      FROM unnest(p_id, p_received, p_stream, p_outcome, p_crc, p_arrived, p_body)
           WITH ORDINALITY r(id, received, stream, outcome, crc, arrived, body, o)
      WHERE r.arrived IS NOT NULL AND (dup_o IS NULL OR r.o::int <> ALL (dup_o));
  RETURN QUERY SELECT r.o::int, base + r.o, d.first, coalesce(d.items, r.items), coalesce(d.differs, false)
      FROM unnest(p_items) WITH ORDINALITY r(items, o)
      LEFT JOIN unnest(dup_o, dup_id, dup_items, dup_differs) d(o, first, items, differs) ON d.o = r.o;
END $f$;

-- Whether a request with one of these claims would be a repeat.
CREATE FUNCTION has_claim(p_scope uuid[], p_lived bigint) RETURNS bool LANGUAGE sql STABLE SET search_path = @schema@ AS $$
  SELECT EXISTS (SELECT FROM claims k, cluster c WHERE k.scope = ANY (p_scope) AND k.g BETWEEN c.g - 5 AND c.g
    AND k.lived_ms > greatest(p_lived, c.lived_ms) - 86460000) $$;

-- An entry of whoever runs the sinks, decided from what is settled: it is placed just below the number that the node has read
-- up to, so that everything that was under way comes behind it.
CREATE FUNCTION place(p_node uuid, p_fence bigint, p_seq bigint, p_id uuid, p_received bigint, p_connector text, p_stream text,
  p_outcome smallint, p_endpoint smallint, p_status smallint, p_items int, p_bytes bigint, p_key text, p_client text,
  p_error text, p_again uuid, p_crc bigint, p_arrived bigint, p_body bytea) RETURNS void
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
DECLARE found_id uuid; gen int; first bigint;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(12121, hashtext('@schema@'));
  PERFORM FROM log_head h WHERE h.owner = p_node AND h.fence = p_fence FOR SHARE;
  IF NOT FOUND THEN RAISE EXCEPTION 'another node runs the sinks' USING ERRCODE = 'HG003'; END IF;
  SELECT c.g, n.first_seq INTO gen, first FROM cluster c JOIN generations n USING (g);
  SELECT r.request_id INTO found_id FROM requests r WHERE r.seq = p_seq;
  IF found_id = p_id THEN RETURN; END IF;                         -- placed before, the answer was lost
  IF found_id IS NOT NULL OR p_seq < first THEN
    RAISE EXCEPTION 'the place % is taken', p_seq USING ERRCODE = 'HG010';
  END IF;
  INSERT INTO requests VALUES (gen, (SELECT w.number FROM writers w WHERE w.node = p_node), p_seq, p_id, p_received, p_bytes, p_items, p_outcome, p_endpoint, p_status, p_connector, p_stream,
    p_key, p_client, NULL, NULL, NULL, p_error, NULL, p_again, NULL, NULL);
  INSERT INTO payloads VALUES (gen, p_seq, p_crc, p_outcome, p_received, p_arrived, p_id, p_stream, p_body);
END $f$;

-- Below this number nothing will be committed any more. Open transactions of others are passed over: they hold no lock on
-- `writers`. `accept` has a lock before it has a number: at first the one that reads a row to lock it.
CREATE FUNCTION horizon() RETURNS bigint LANGUAGE sql SET search_path = @schema@ AS $$
  WITH l AS MATERIALIZED (SELECT * FROM pg_locks),
  ours AS (SELECT virtualtransaction FROM l WHERE locktype = 'relation' AND relation = 'writers'::regclass
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND mode IN ('RowShareLock', 'RowExclusiveLock')),
  strangers AS (SELECT transactionid::text::bigint AS x FROM l WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
                AND virtualtransaction NOT IN (SELECT virtualtransaction FROM ours))
  SELECT (coalesce(min(x::text::bigint), pg_snapshot_xmax(pg_current_snapshot())::text::bigint) + (SELECT xid_base FROM cluster)) << 12
  FROM pg_snapshot_xip(pg_current_snapshot()) x WHERE (x::text::bigint & 4294967295) NOT IN (SELECT x FROM strangers) $$;

INSERT INTO cluster (format, system_identifier, timeline, g)
  SELECT 1, system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint, 1
  FROM pg_control_system();
INSERT INTO generations SELECT 1, 0, 0;
CALL shelf(1);
CALL shelf(2);
CALL shelf(3);
