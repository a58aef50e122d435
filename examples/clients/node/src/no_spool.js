// Where there is no file system there is no spool.

/** Takes the place of the one that has files. */
export class Spool {
  /** @param {unknown[]} told */
  constructor(...told) {
    void told;
    throw new TypeError("a spool requires a file system, which this platform does not have");
  }
}
