// The present time by the clock of the node, whose times the pages show: the clock of the browser's machine may be wrong.

const TOLERATED_MS = 2_000;
const HALF_SECOND_MS = 500;
let aheadMs = 0;

/** Return the time in ms. */
export const now = () => Date.now() - aheadMs;

/** Take the time from the header Date of a response, which has whole seconds, and arrives late. */
export function setClock(date) {
  const ms = Date.now() - Date.parse(date) - HALF_SECOND_MS;
  if (Math.abs(ms - aheadMs) > TOLERATED_MS) aheadMs = Math.abs(ms) > TOLERATED_MS ? ms : 0;
}
