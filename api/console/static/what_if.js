// What-if analysis: simulates another timeout on the group's history before it is set.

import { groupPath, read } from "./api.js";
import { h, replaceContent } from "./dom.js";
import { plural, span } from "./format.js";
import { now } from "./now.js";

/** The settings that can be simulated. */
export const SIMULATED = new Set(["session_timeout_ms", "rebalance_timeout_ms"]);

/** Return a button, and the element that shows the result; `values` gives what the form holds. */
export function simulate(groupId, key, values) {
  const result = h("p", { class: "what-if-result", role: "status" });
  let runs = 0;
  const run = async () => {
    const ticket = ++runs;
    const show = (text) => ticket === runs && replaceContent(result, text);
    show("Simulating with the group’s history…");
    try {
      const { value } = values();
      const [{ what_if: found }, group] = await Promise.all([read(groupPath(groupId, "tuning"), { [key]: value }), read(groupPath(groupId), { limit: 1 })]);
      const wait = key === "rebalance_timeout_ms" ? underWay(group, Number(value)) : "";
      show(found?.[key] ? wait + sentences(key, found[key], found.window, wait !== "") : "Enter a value to simulate.");
    } catch (refusal) {
      show(refusal.message);
    }
  };
  return h("div", { class: "what-if" }, h("button", { type: "button", onclick: run }, "What if?"), result);
}

/** Return a sentence about the wait under way, which the history does not have yet; "" if there is none. */
function underWay({ waiting_for: names, state_since: since }, timeoutMs) {
  if (!names.length) return "";
  const leftMs = Date.parse(since) + timeoutMs - now();
  return `The wait under way for ${plural(names.length, "member")} would end ${leftMs > 0 ? `in at most ${span(leftMs)}` : "at once"}. `;
}

function sentences(key, found, window_, isWaiting) {
  const over = span(Date.parse(window_.to) - Date.parse(window_.from));
  const avoided = found.avoided.length, remaining = found.remaining.length;
  if (changesNothing(key, found)) {
    return `Over the last ${over}, nothing ${isWaiting ? "else " : ""}would have been different: ${remaining ? `${plural(remaining, "spurious eviction")} would have happened all the same` : "no member was evicted, and none would have been"}. Only a failure in the future would show ${isWaiting ? "another" : "a"} difference: ${FUTURE[key]}.`;
  }
  const first = `Over the last ${over}, ${avoided} of ${plural(avoided + remaining, "spurious eviction")} would have been avoided.`;
  if (key === "rebalance_timeout_ms") {
    return `${first} Additional evictions of members that joined in time: ${found.added}. Time spent waiting for members that never joined: ${change(found.waiting_added_ms)}. ${cost(found)}`;
  }
  const added = found.added_at_least === found.added_at_most ? found.added_at_least : `${found.added_at_least} to ${found.added_at_most}`;
  const failures = found.failures.length === 0 ? "No member failed in this period." : `${plural(found.failures.length, "real failure")} would have been detected ${signed(found.detection_added_ms)} in total.`;
  return `${first} Additional evictions of live members: ${added}. ${failures} ${cost(found)}`;
}

const FUTURE = { session_timeout_ms: "a dead member is detected after this time", rebalance_timeout_ms: "a rebalance waits at most this long for a member that does not join" };

/** Return whether the timeout would have made no difference to any eviction or wait. */
function changesNothing(key, found) {
  if (found.avoided.length) return false;
  return key === "rebalance_timeout_ms" ? !found.added && !found.waiting_added_ms : !found.added_at_most && !found.failures.length;
}

/** Return the estimated cost of the timeout, and that of the effective one. */
function cost(found) {
  const parts = ({ rebalances, evictions, stood_still_ms: still, repeated_work_ms: repeated }) =>
    `${plural(rebalances, "rebalance")}, ${plural(evictions, "eviction")} of live members, ${span(still)} of stopped consumption, ${span(repeated)} of reprocessing`;
  return `Estimated cost: ${parts(found.cost)}${found.present_cost ? `; with the effective value: ${parts(found.present_cost)}` : ""}.`;
}

const signed = (ms) => (ms === 0 ? "at the same time" : ms > 0 ? `${span(ms)} later` : `${span(-ms)} sooner`);
const change = (ms) => (ms === 0 ? "unchanged" : ms > 0 ? `${span(ms)} longer` : `${span(-ms)} shorter`);
