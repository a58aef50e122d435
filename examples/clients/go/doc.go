// Package headgate sends items to a Headgate daemon and reads them back.
//
// What is in the queue of a [Batcher] lives in memory: a crash loses it, unless [BatcherOptions].Spool names a folder.
// Go has no hook at the end of a program: write `defer b.Close(ctx)`, or what is still queued is lost when main returns.
//
// A [Client] has an ingest key and submits: [Client.Send] makes one request, and repeats it until it is accepted,
// refused or timed out, always with the same idempotency key. A [Batcher] joins many items into few requests, keeps
// their order, and tells of every item what became of it. A [Reader] has a read key: it lists items, and follows
// streams as they change.
//
// One rule holds for all of them: nothing is dropped in silence. An item is accepted, or its error is returned or
// handed to a callback.
//
// Invariant: every attempt at a request carries the same bytes and the same idempotency key, and no error, log line or
// printed value shows the key of a client.
package headgate
