// What stands out in a group's last hour, in sentences: who it is, what is probably wrong, and what would cure it.

import { h } from "./dom.js";
import { clock, plural, span } from "./format.js";
import { changeSetting } from "./settings_section.js";
import { clientOf } from "./words.js";

const HOUR_MS = 3_600_000;
const TIMES = 2;
const RESTARTS = 3;
const WORTH_NAMING_MS = 5_000; // a member may learn of a rebalance by its next heartbeat, three seconds later
const HALF = 0.5;
const ROOM = 1.25;
const STEPS_S = [6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1_200, 1_800];
const SAME_PROCESS = /UNKNOWN_MEMBER_ID|UnknownMemberId|ILLEGAL_GENERATION|IllegalGeneration/;

/** Return what stands out, as a list, or nothing; rebalances and stays are the newest first, `parts` belong to the first rebalances, `session` is what the group sets, or null. */
export function findings(groupId, rebalances, parts, stays, session, again) {
  const since = Date.now() - HOUR_MS;
  const recent = stays.filter((each) => Date.parse(each.ended_at) >= since);
  const found = [...dead(recent), ...silent(groupId, recent.filter((each) => silence(each) >= (session ?? 0)), rebalances, again), ...restarted(recent), ...slow(rebalances, parts, since)];
  if (!found.length) return [];
  return h("aside", { class: "notice findings", "aria-label": "What stands out" }, h("h2", {}, "What stands out in the last hour"), h("ul", {}, found.map((each) => h("li", {}, each))));
}

/** How long a member must have been silent: until it was put out, and until it was back. Who sets more than that has cured it. */
const silence = (each) => each.session_timeout_ms + (each.back_at ? Date.parse(each.back_at) - Date.parse(each.ended_at) : 0);

/** Whose successor had joined before it was put out: it died. */
function dead(stays) {
  return byClient(stays.filter((each) => each.successor_at)).filter(([, deaths]) => deaths.length >= TIMES).map(([client, deaths]) =>
    [h("strong", {}, client), ` died ${plural(deaths.length, "time")}, the last time before ${clock(deaths[0].ended_at)}: a new process had joined before the silent one was put out. Its own log says why; no timeout cures that.`]);
}

/** Who was put out for silence and was back at once: the same process, or one that was started again? */
function silent(groupId, stays, rebalances, again) {
  const back = stays.filter((each) => each.end_reason === "session_expired" && each.back_at);
  return byClient(back).filter(([, evictions]) => evictions.length >= TIMES).map(([client, evictions]) => {
    const away = Math.max(...evictions.map((each) => Date.parse(each.back_at) - Date.parse(each.ended_at)));
    const timeout = Math.max(...evictions.map((each) => each.session_timeout_ms));
    const first = [h("strong", {}, client), ` was put out ${plural(evictions.length, "time")} for silence of more than ${span(timeout)}, and was back within ${span(away)}; the last time at ${clock(evictions[0].ended_at)}`];
    const reasons = rebalances.filter((each) => each.trigger === "member_joined" && clientOf(each.trigger_member_id) === client).map((each) => each.client_reason ?? "");
    if (reasons.length && !reasons.some((reason) => SAME_PROCESS.test(reason))) {
      return [...first, ". Each time it was a new process: it dies, and is started again. Its own log says why; no timeout cures that."];
    }
    const advised = suggested(timeout + away);
    return [...first, reasons.length ? ". It was the same process: it pauses. " : ". It was alive, or was started again at once. ",
      `A session timeout of ${span(advised)} would have kept it. `,
      h("button", { type: "button", "data-key": `longer-${client}`, onclick: () => changeSetting(groupId, "session_timeout_ms", advised, again, `${client} was silent for up to ${span(timeout + away)}, and alive`) }, `Try ${span(advised)}…`)];
  });
}

/** Who leaves and is back at once, again and again. */
function restarted(stays) {
  const back = stays.filter((each) => each.end_reason === "left" && each.back_at);
  return byClient(back).filter(([, exits]) => exits.length >= RESTARTS).map(([client, exits]) =>
    [h("strong", {}, client), ` left ${plural(exits.length, "time")} and was back at once: is it being deployed, or started again by whoever watches it? As a static member (`, h("span", { class: "key" }, "group_instance_id"), ") it could do so without a rebalance."]);
}

/** Who held up most of the last rebalances. */
function slow(rebalances, parts, since) {
  const recent = rebalances.slice(0, parts.length).map((each, index) => [each, parts[index][0]]).filter(([each, part]) => part && Date.parse(each.started_at) >= since);
  const held = recent.map(([, part]) => part).filter((part) => part.waited_for_ms >= WORTH_NAMING_MS);
  return byClient(held).filter(([, waits]) => waits.length >= TIMES && waits.length >= HALF * recent.length).map(([client, waits]) => {
    const longest = Math.max(...waits.map((each) => each.waited_for_ms));
    const waited = ["Everybody waited for ", h("strong", {}, client), ` in ${waits.length} of the last ${plural(recent.length, "rebalance")}, for up to ${span(longest)}`];
    if (waits.some((each) => each.outcome === "evicted")) return [...waited, ": it was put out, so it was dead or hanging. Its own log says why."];
    return [...waited, ": it is busy and joins late. Let it take less work at a time. A shorter rebalance timeout would evict it though it is alive."];
  });
}

const byClient = (rows) => [...Map.groupBy(rows, (each) => each.group_instance_id ?? each.client_id)].sort(([, one], [, other]) => other.length - one.length);

function suggested(neededMs) {
  const wanted = (ROOM * neededMs) / 1_000;
  return 1_000 * (STEPS_S.find((step) => step >= wanted) ?? STEPS_S.at(-1));
}
