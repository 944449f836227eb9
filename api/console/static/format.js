// Numbers, lengths and moments as people read them; a dash is what nobody knows.

export const NONE = "–";
const SECOND = 1_000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Write a number with its thousands apart. */
export const count = (number) => (number === null || number === undefined ? NONE : whole.format(number));

/** Write a number in at most five signs. */
export const compact = (number) => (number === null || number === undefined ? NONE : short.format(number));

/** Write "1 member" or "2 members". */
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Write a length of time in its one or two largest units. */
export function span(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 0) return `-${span(-ms)}`;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1).replace(".0", "")} s`;
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return two(ms, MINUTE, "min", SECOND, "s");
  if (ms < DAY) return two(ms, HOUR, "h", MINUTE, "min");
  return two(ms, DAY, "d", HOUR, "h");
}

function two(ms, large, largeName, small, smallName) {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** Write a moment as a time of day, with its date unless it is today. */
export function clock(moment) {
  if (moment === null || moment === undefined) return NONE;
  const at = new Date(moment);
  const time = at.toLocaleTimeString("en-GB");
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

/** Write how long ago a moment was. */
export function ago(moment) {
  if (moment === null || moment === undefined) return NONE;
  const ms = Date.now() - new Date(moment);
  return ms < SECOND ? "now" : `${span(Math.floor(ms / SECOND) * SECOND)} ago`;
}

/** Return how many milliseconds are left until a moment; below zero once it is over. */
export const left = (moment) => new Date(moment) - Date.now();

/** Write a lag in records: a lower bound where the end of the log is out of date, and what it was when that is 0. */
export function lag(records, isAtLeast, logEndAt, write = compact) {
  if (!isAtLeast) return write(records);
  return records === null ? `0 when last known, ${clock(logEndAt)}` : `≥ ${write(records)}`;
}

/** Write a setting's value, with what its milliseconds or minutes come to. */
export function setting(key, value) {
  if (value === null || value === undefined) return NONE;
  if (key.endsWith("_ms")) return `${count(value)} ms (${span(value)})`;
  if (key.endsWith("_minutes")) return value < 0 ? "for ever" : `${count(value)} min (${span(value * MINUTE)})`;
  return typeof value === "number" ? count(value) : String(value);
}
