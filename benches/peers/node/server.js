// A peer of the bench: what one would write in Node.js, with fastify and better-sqlite3, instead of running Headgate.
//
// It looks up the key, parses, flattens, and answers 202 when the request's log entry and its items are in SQLite and
// flushed. Requests that arrive together are committed together, so that they share one fsync, as Headgate's do.
// It has no idempotency, no rates, no sinks, no pushing, no order of late retries, and numbers pass through doubles.
'use strict';

const { createHash, randomBytes } = require('node:crypto');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const Database = require('better-sqlite3');
const fastify = require('fastify');

const [port, folder, ...pairs] = process.argv.slice(2);

// Digest of a key -> its stream.
const digest = (key) => createHash('sha256').update(key).digest('base64');
const keys = new Map(
  pairs.map((pair) => pair.split('=')).map(([key, stream]) => [digest(key), { stream, prefix: key.slice(0, 16) }]),
);

const db = new Database(path.join(folder, 'data.db'));
db.exec(readFileSync(path.join(__dirname, '../schema.sql'), 'utf8'));
const log = db.prepare(
  `INSERT INTO requests (seq, request_id, received_ms, stream, status, http_status, items, bytes, key, client, item_key)
   VALUES (?, ?, ?, ?, 'processed', 202, ?, ?, ?, ?, ?)`,
);
const upsert = db.prepare(
  `INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id) VALUES (?, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, seq = excluded.seq,
   updated_at = excluded.updated_at, request_id = excluded.request_id`,
);
let seq = db.prepare('SELECT coalesce(max(seq), 0) FROM requests').pluck().get();

const commit = db.transaction((group) => {
  for (const { id, now, key, items, bytes, client, itemKey } of group) {
    seq += 1;
    log.run(seq, id, now, key.stream, items.length, bytes, key.prefix, client, itemKey);
    for (const [name, fields] of items) upsert.run(key.stream, name, fields, seq, now, now, id);
  }
});

// What has arrived since the last commit.
let waiting = [];

function submit(entry) {
  return new Promise((resolve, reject) => {
    if (waiting.length === 0) setImmediate(flush);
    waiting.push({ ...entry, resolve, reject });
  });
}

function flush() {
  const group = waiting;
  waiting = [];
  try {
    commit(group);
  } catch (error) {
    for (const entry of group) entry.reject(error);
    return;
  }
  for (const entry of group) entry.resolve();
}

class Invalid extends Error {}

function flatten(object, prefix, flat) {
  for (const key of Object.keys(object)) {
    const value = object[key];
    const name = prefix + key;
    if (value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length > 0) {
      flatten(value, `${name}.`, flat);
    } else if (Object.hasOwn(flat, name)) {
      throw new Invalid(`the field "${name}" is there twice`);
    } else {
      flat[name] = value;
    }
  }
  return flat;
}

// Pairs of key and fields as JSON.
function itemsOf(body, itemKey) {
  const objects = Array.isArray(body) ? body : [body];
  return objects.map((object, position) => {
    if (object === null || typeof object !== 'object' || Array.isArray(object)) {
      throw new Invalid(`item ${position} is not an object`);
    }
    const flat = flatten(object, '', {});
    const key = itemKey === null ? position : flat[itemKey];
    if (!['string', 'number', 'boolean'].includes(typeof key) || key === '') {
      throw new Invalid(`item ${position} has no field "${itemKey}", which X-Item-Key names`);
    }
    return [String(key), JSON.stringify(flat)];
  });
}

// UUIDv7 (RFC 9562).
function requestId(now) {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const refused = (code, message) => ({ success: false, error: { code, message } });

const app = fastify({ bodyLimit: 1048576 });

app.setErrorHandler((error, request, reply) => {
  if (error instanceof Invalid) return reply.code(400).send(refused('INVALID_PAYLOAD', error.message));
  if (error.statusCode === 413) return reply.code(413).send(refused('PAYLOAD_TOO_LARGE', error.message));
  if (error.statusCode < 500) return reply.code(400).send(refused('INVALID_PAYLOAD', error.message));
  console.error(error);
  return reply.code(503).send(refused('UNAVAILABLE', 'failed to store the request'));
});

// Before the body is read.
async function authenticate(request, reply) {
  const given = request.headers.authorization;
  request.key = given?.startsWith('Bearer ') ? keys.get(digest(given.slice(7))) : undefined;
  if (!request.key) {
    reply.code(401).header('WWW-Authenticate', 'Bearer');
    return reply.send(refused('UNAUTHORIZED', 'send an ingest key'));
  }
}

app.post('/api/ingest', { onRequest: authenticate }, async (request, reply) => {
  const { key } = request;
  const itemKey = request.headers['x-item-key'] ?? null;
  const items = itemsOf(request.body, itemKey);
  const now = Date.now();
  const id = requestId(now);
  const bytes = Number(request.headers['content-length'] ?? 0);
  await submit({ id, now, key, items, bytes, client: request.ip, itemKey });
  reply.code(202).header('X-Request-Id', id);
  return { success: true, data: { stream: key.stream, items_received: items.length, request_id: id } };
});

app.listen({ port: Number(port), host: '127.0.0.1' }).catch((error) => {
  console.error(error);
  process.exit(1);
});
