/** Types about threads: the conversations of apps that run a graph. */

import type { Json } from "./basic.js";

/** Data that only the app can read. `data` is base64. */
export interface Encoded {
  type: string;
  data: string;
}

/** A channel of a state. If it has no value, the value in the parent state applies. */
export interface Channel {
  channel: string;
  version: string;
  value: Encoded | null;
}

/** A result of a task. The position is negative for errors, interrupts and similar results. */
export interface NewWrite {
  position: number;
  channel: string;
  value: Encoded;
}

export interface ThreadWrite extends NewWrite {
  task: string;
  path: string;
}

export interface ThreadState {
  app: string;
  thread: string;
  namespace: string;
  id: string;
  parent: string | null;
  time: number;
  files: string | null;
  metadata: { [key: string]: Json };
  deltas: string[];
  content: Encoded;
  channels: Channel[];
  writes: ThreadWrite[];
}

/** A position in a list of states. */
export interface ThreadPosition {
  id: string;
  number: number;
}

/** A part of a list of states. The list continues after `next`, unless that is null. */
export interface ThreadPage {
  states: ThreadState[];
  next: ThreadPosition | null;
}

/** The number of states that were copied or deleted. */
export interface StateCount {
  states: number;
}
