// Types of /headgate.js, the client for pages. Put this file beside a copy of headgate.js, or name it in
// `declare module "http://127.0.0.1:8080/headgate.js"`.

/** Any JSON value. Integers that a double cannot hold are strings; `Stream.text` has every number as it was sent. */
export type Value = string | number | boolean | null | Value[] | { [name: string]: Value };

export interface Item {
  readonly key: string;
  /** Nested objects are flattened: `home.score`. */
  readonly fields: { readonly [field: string]: Value };
  /** Fields that operators have overridden; absent if there are none. */
  readonly overridden?: readonly string[];
  /** RFC 3339, UTC, milliseconds. */
  readonly updated_at: string;
  /** Position of the change. */
  readonly seq: number;
}

export interface Change {
  readonly updated: readonly Item[];
  readonly removed: readonly string[];
  /** Part of a snapshot, not of what happened since. */
  readonly snapshot: boolean;
}

export type State = "connecting" | "live" | "offline" | "refused";

interface Both {
  /** Where Headgate is; default: where headgate.js came from. */
  url?: string;
  /** Absent: every stream of the key. */
  streams?: string[];
  transport?: "auto" | "websocket" | "sse";
  /** Flushes a second. */
  maxRate?: number;
  /** `false`: keep nothing; default: localStorage. */
  storage?: boolean;
  /** Milliseconds without any message until a connection counts as dead; default 40000. */
  silence?: number;
  /** What this screen is called: operators then see what it shows, and can have it load its page again. */
  screen?: string;
  /** Of the page, for operators. */
  version?: string;
}

/** A read key, or something that fetches a ticket. */
export type Options =
  | (Both & { key: string; ticket?: undefined })
  | (Both & { key?: undefined; ticket: (streams?: string[]) => Promise<string> });

interface StreamEvents {
  change: CustomEvent<Change>;
  stale: CustomEvent<unknown>;
  fresh: CustomEvent<unknown>;
}

interface LiveEvents {
  state: CustomEvent<{ state: State; reason: string }>;
  /** For a screen. On "reload" the page loads again unless it is prevented. */
  control: CustomEvent<{ action: string }>;
}

/** The items of a stream in order, read like a Map. */
export interface Stream extends EventTarget {
  /** The whole content is known. */
  readonly complete: boolean;
  /** Comes from storage, is cut off, or the source went quiet. */
  readonly stale: boolean;
  readonly size: number;
  get(key: string): Item | undefined;
  has(key: string): boolean;
  keys(): IterableIterator<string>;
  values(): IterableIterator<Item>;
  entries(): IterableIterator<[string, Item]>;
  [Symbol.iterator](): IterableIterator<[string, Item]>;
  forEach(call: (item: Item, key: string, stream: Stream) => void, self?: unknown): void;
  /** The value as text: numbers as they were sent (`10.50`), arrays and objects as JSON, `""` for null and absent. */
  text(key: string, field: string): string;
  addEventListener<Type extends keyof StreamEvents>(
    type: Type,
    listener: (event: StreamEvents[Type]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions): void;
}

export interface Live extends EventTarget {
  readonly state: State;
  readonly reason: string;
  /** The position that the next connection resumes from. */
  readonly id: string | null;
  stream(name: string): Stream;
  /** Ends it; the streams keep their items. */
  close(): void;
  addEventListener<Type extends keyof LiveEvents>(
    type: Type,
    listener: (event: LiveEvents[Type]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions): void;
}

export function connect(options: Options): Live;
