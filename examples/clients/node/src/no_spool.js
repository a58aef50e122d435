// Where there is no file system there is no spool.

/** Takes the place of the one that has files. */
export class Spool {
  /** @param {unknown[]} told */
  constructor(...told) {
    void told;
    throw new TypeError("there is no file system here for a spool");
  }
}
