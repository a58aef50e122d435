-- Who is signed in to the admin pages, links that sign in, and tickets of renderers. Of every secret only its SHA-256 is here.
-- Times are those of the clock of the database.
SET LOCAL search_path = @schema@;
-- Of the admin token of nodes whose configuration has none.
CREATE TABLE admin_token (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    sha256 bytea NOT NULL
);
CREATE TABLE sessions (
    sha256 bytea PRIMARY KEY,
    id uuid NOT NULL UNIQUE,
    -- Of the token of the sign-in.
    token bytea NOT NULL,
    client text NOT NULL,
    since timestamptz NOT NULL,
    seen timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    -- The message and the new key for the next page. Only who has the secret of the session can read them.
    flash bytea,
    issued bytea,
    issued_for text,
    issued_ends timestamptz
);
CREATE INDEX sessions_of_token ON sessions (token, since);
CREATE TABLE invitations (
    token bytea PRIMARY KEY,
    sha256 bytea NOT NULL UNIQUE,
    ends timestamptz NOT NULL
);
-- A restart after a crash empties it, and so does a failover: who lost a ticket asks for another one. So it writes no log, waits
-- for no standby, and what was used never comes back. A statement says so nevertheless: whatever else it writes, as where it
-- tidies up a page of the catalog, would have its commit wait.
CREATE UNLOGGED TABLE tickets (
    sha256 bytea PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    -- Of the read key; null: it is an admin token's.
    key bytea,
    key_ends timestamptz,
    streams text[] NOT NULL,
    origin text,
    ends timestamptz NOT NULL
);
CREATE INDEX tickets_of_name ON tickets (name, ends);
CREATE INDEX tickets_by_end ON tickets (ends);

CREATE FUNCTION unix_ms(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM p_at) * 1000)::bigint $$;

-- What may be lost with a primary, because people then sign in again, does not wait for the standby.
CREATE FUNCTION commit_here(p_how text) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
  PERFORM set_config('synchronous_commit', p_how, true);
END $f$;

-- Begins a session; the oldest ones of its token end, so that the token has p_max.
CREATE FUNCTION begin_session(p_sha256 bytea, p_id uuid, p_token bytea, p_client text, p_seconds float8, p_max int)
RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM commit_here('local');
  INSERT INTO sessions (sha256, id, token, client, since, seen, ends) VALUES (p_sha256, p_id, p_token, p_client,
    clock_timestamp(), clock_timestamp(), clock_timestamp() + make_interval(secs => p_seconds));
  DELETE FROM sessions s WHERE s.sha256 IN (SELECT o.sha256 FROM sessions o WHERE o.token = p_token
    ORDER BY o.since DESC OFFSET p_max FOR UPDATE SKIP LOCKED);
END $f$;

-- A request of a session, which is noted once a minute.
CREATE FUNCTION visit(p_sha256 bytea) RETURNS TABLE (id uuid, token bytea, has_flash bool, issued_for text)
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
#variable_conflict use_column
DECLARE s sessions;
BEGIN
  SELECT * INTO s FROM sessions o WHERE o.sha256 = p_sha256 AND o.ends > clock_timestamp();
  IF NOT FOUND THEN RETURN; END IF;
  IF s.seen < clock_timestamp() - interval '1 minute' THEN
    PERFORM commit_here('off');
    UPDATE sessions SET seen = clock_timestamp()
      WHERE sha256 IN (SELECT o.sha256 FROM sessions o WHERE o.sha256 = p_sha256 FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN QUERY SELECT s.id, s.token, s.flash IS NOT NULL,
    CASE WHEN s.issued_ends > clock_timestamp() THEN s.issued_for END;
END $f$;

CREATE FUNCTION set_flash(p_sha256 bytea, p_flash bytea) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM commit_here('local');
  UPDATE sessions SET flash = p_flash WHERE sha256 = p_sha256;
END $f$;

CREATE FUNCTION take_flash(p_sha256 bytea) RETURNS SETOF bytea LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM commit_here('local');
  RETURN QUERY UPDATE sessions s SET flash = NULL
    FROM (SELECT o.sha256, o.flash FROM sessions o WHERE o.sha256 = p_sha256 AND o.flash IS NOT NULL FOR UPDATE) was
    WHERE s.sha256 = was.sha256 RETURNING was.flash;
END $f$;

-- Keeps a new key for the page p_for.
CREATE FUNCTION keep_issued(p_sha256 bytea, p_for text, p_issued bytea, p_seconds float8) RETURNS void
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM commit_here('local');
  UPDATE sessions SET issued = p_issued, issued_for = p_for, issued_ends = clock_timestamp() + make_interval(secs => p_seconds)
    WHERE sha256 = p_sha256;
END $f$;

CREATE FUNCTION take_issued(p_sha256 bytea, p_for text) RETURNS SETOF bytea LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM commit_here('local');
  RETURN QUERY UPDATE sessions s SET issued = NULL, issued_for = NULL, issued_ends = NULL
    FROM (SELECT o.sha256, o.issued FROM sessions o WHERE o.sha256 = p_sha256 AND o.issued_for = p_for
      AND o.issued_ends > clock_timestamp() FOR UPDATE) was
    WHERE s.sha256 = was.sha256 RETURNING was.issued;
END $f$;

-- Replaces the link of a token. Answers when it ends.
CREATE FUNCTION invite(p_token bytea, p_sha256 bytea, p_seconds float8) RETURNS bigint
LANGUAGE plpgsql SET search_path = @schema@ AS $f$
DECLARE at timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
BEGIN
  PERFORM commit_here('local');
  INSERT INTO invitations VALUES (p_token, p_sha256, at) ON CONFLICT (token) DO UPDATE SET sha256 = p_sha256, ends = at;
  RETURN unix_ms(at);
END $f$;

-- Stores a ticket. The oldest ones of its name go, so that the name has p_max, and some that have ended. Answers when it ends.
CREATE FUNCTION give_ticket(p_sha256 bytea, p_name text, p_key bytea, p_key_ends_ms bigint, p_streams text[], p_origin text,
  p_seconds float8, p_max int) RETURNS bigint LANGUAGE plpgsql SET search_path = @schema@ AS $f$
DECLARE at timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
BEGIN
  PERFORM commit_here('off');
  INSERT INTO tickets VALUES (p_sha256, p_name, p_key, to_timestamp(p_key_ends_ms / 1000.0), p_streams, p_origin, at);
  DELETE FROM tickets t WHERE t.sha256 IN (SELECT o.sha256 FROM tickets o WHERE o.name = p_name
    ORDER BY o.ends DESC OFFSET p_max FOR UPDATE SKIP LOCKED);
  DELETE FROM tickets t WHERE t.sha256 IN (SELECT o.sha256 FROM tickets o WHERE o.ends < clock_timestamp()
    ORDER BY o.ends LIMIT 20 FOR UPDATE SKIP LOCKED);
  RETURN unix_ms(at);
END $f$;

-- Deletes what has ended, and the oldest tickets, so that there are p_max.
CREATE FUNCTION delete_ended_access(p_max int) RETURNS void LANGUAGE plpgsql SET search_path = @schema@ AS $f$
BEGIN
  PERFORM commit_here('off');
  DELETE FROM tickets t WHERE t.sha256 IN (SELECT o.sha256 FROM tickets o WHERE o.ends < clock_timestamp()
    FOR UPDATE SKIP LOCKED);
  DELETE FROM tickets t WHERE t.sha256 IN (SELECT o.sha256 FROM tickets o ORDER BY o.ends DESC OFFSET p_max
    FOR UPDATE SKIP LOCKED);
  DELETE FROM sessions s WHERE s.sha256 IN (SELECT o.sha256 FROM sessions o WHERE o.ends < clock_timestamp()
    FOR UPDATE SKIP LOCKED);
  UPDATE sessions s SET issued = NULL, issued_for = NULL, issued_ends = NULL
    WHERE s.sha256 IN (SELECT o.sha256 FROM sessions o WHERE o.issued_ends < clock_timestamp() FOR UPDATE SKIP LOCKED);
  DELETE FROM invitations i WHERE i.token IN (SELECT o.token FROM invitations o WHERE o.ends < clock_timestamp()
    FOR UPDATE SKIP LOCKED);
END $f$;
