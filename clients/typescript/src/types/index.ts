/** The types of parameters and results, as docs/protocol.md describes them. */

export type * from "./basic.js";
export type * from "./checkpoint.js";
export type * from "./methods.js";
export type * from "./rollback.js";
export type * from "./session.js";
export type * from "./sessions.js";
export type * from "./threads.js";
