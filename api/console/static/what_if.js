// Another timeout is tried out on the group's own past before it is set.

import { groupPath, read } from "./api.js";
import { h, swap } from "./dom.js";
import { plural, span } from "./format.js";

/** The settings that can be tried out. */
export const TRIED = new Set(["session_timeout_ms", "rebalance_timeout_ms"]);

/** Return a button, and the place where what came of it is told; `values` gives what the form holds. */
export function tryOut(groupId, key, values) {
  const answer = h("p", { class: "tried", role: "status" });
  const ask = async () => {
    swap(answer, "Replaying the group’s past…");
    try {
      const { what_if: found } = await read(groupPath(groupId, "tuning"), { [key]: values().value });
      swap(answer, found?.[key] ? sentences(key, found[key], found.window) : "Give a value to try out.");
    } catch (refusal) {
      swap(answer, refusal.message);
    }
  };
  return h("div", { class: "what-if" }, h("button", { type: "button", onclick: ask }, "What if?"), answer);
}

function sentences(key, found, window_) {
  const over = span(Date.parse(window_.to) - Date.parse(window_.from));
  const avoided = found.avoided.length, remaining = found.remaining.length;
  const first = `Over the last ${over}: ${avoided} of ${plural(avoided + remaining, "needless eviction")} would not have happened.`;
  if (key === "rebalance_timeout_ms") {
    return `${cost(found)} ${first} ${plural(found.added, "member")} that joined in time would have been evicted. Waiting for members that never joined: ${signed(found.waiting_added_ms)}.`;
  }
  const added = found.added_at_least === found.added_at_most ? found.added_at_least : `${found.added_at_least} to ${found.added_at_most}`;
  const failures = found.failures.length === 0 ? "Nobody failed for real meanwhile." : `${plural(found.failures.length, "real failure")} would have been seen ${signed(found.detection_added_ms)}, added up.`;
  return `${cost(found)} ${first} Further live members evicted: ${added}. ${failures}`;
}

/** Say the whole cost of a timeout, beside the one in force. */
function cost(found) {
  const parts = ({ rebalances, evictions, stood_still_ms: still, repeated_work_ms: repeated }) =>
    `${plural(rebalances, "rebalance")}, ${plural(evictions, "eviction")} of live members, ${span(still)} of standstill and ${span(repeated)} of repeated work`;
  return `It would have cost ${parts(found.cost)}${found.present_cost ? ` instead of ${parts(found.present_cost)}` : ""}.`;
}

const signed = (ms) => (ms === 0 ? "no later" : ms > 0 ? `${span(ms)} later` : `${span(-ms)} sooner`);
