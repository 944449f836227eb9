// Number, duration and time formatting; a dash stands for an unknown value.

import { now } from "./now.js";

export const NONE = "–";
const SECOND = 1_000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Format a number, or a text of digits, with thousands separators. */
export const count = (number) => (number === null || number === undefined ? NONE : whole.format(number));

/** Format a number in compact notation, such as 1.2K. */
export const compact = (number) => (number === null || number === undefined ? NONE : short.format(number));

/** Return "1 member" or "2 members". */
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Format a duration in its one or two largest units. */
export function span(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 0) return `-${span(-ms)}`;
  if (Math.round(ms) < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1).replace(".0", "")} s`;
  if (Math.round(ms / SECOND) < 60) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return two(Math.max(ms, MINUTE), MINUTE, "min", SECOND, "s");
  if (ms < DAY) return two(ms, HOUR, "h", MINUTE, "min");
  return two(ms, DAY, "d", HOUR, "h");
}

function two(ms, large, largeName, small, smallName) {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** Format a time as a time of day, with the date unless it is today. */
export function clock(moment) {
  if (moment === null || moment === undefined) return NONE;
  const at = new Date(moment);
  const time = at.toLocaleTimeString("en-GB");
  const isToday = at.toDateString() === new Date(now()).toDateString();
  return isToday ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

/** Format the time since a moment. */
export function ago(moment) {
  if (moment === null || moment === undefined) return NONE;
  const ms = now() - new Date(moment);
  return ms < SECOND ? "now" : `${span(Math.floor(ms / SECOND) * SECOND)} ago`;
}

/** Return the milliseconds since a moment of the past; 0 if the node's clock, which is estimated, is not there yet. */
export const elapsed = (moment) => Math.max(now() - new Date(moment), 0);

/** Return the milliseconds until a moment; negative after it. */
export const left = (moment) => new Date(moment) - now();

/** Format a lag in records: a lower bound if the log end offset is stale; null then stands for a lag of 0 when it was reported. */
export function lag(records, isLowerBound, logEndAt, write = compact) {
  if (!isLowerBound) return write(records);
  return records === null ? `0 as of ${clock(logEndAt)}` : `≥ ${write(records)}`;
}

/** Format a lag in time, which may be a lower bound. */
export function timeLag({ lag_seconds: seconds, is_lag_lower_bound: isLowerBound }) {
  if (seconds === null) return NONE;
  return `${isLowerBound ? "≥ " : ""}${seconds === 0 ? "0 s" : span(seconds * SECOND)}`;
}

/** Return the sum of the known lags of `parts`, a BigInt; null if none is known. */
export function sumOfLags(parts) {
  const known = parts.filter((each) => each.lag !== null);
  return known.length ? known.reduce((total, each) => total + BigInt(each.lag), 0n) : null;
}

/** Format the sum of the known lags of `parts` {lag, is_log_end_stale, log_end_at}: a lower bound if one of them is. */
export function totalLag(parts, write = count) {
  const sum = sumOfLags(parts);
  const bounds = parts.filter((each) => each.is_log_end_stale);
  return lag(bounds.length ? sum || null : sum, bounds.length > 0, bounds.map((each) => each.log_end_at).sort()[0], write);
}

/** Format a setting's value; milliseconds and minutes also as a duration. */
export function setting(key, value) {
  if (value === null || value === undefined) return NONE;
  if (key.endsWith("_ms")) return `${count(value)} ms (${span(value)})`;
  if (key.endsWith("_minutes")) return value < 0 ? "no expiry" : `${count(value)} min (${span(value * MINUTE)})`;
  return typeof value === "number" ? count(value) : String(value);
}
