// Timeline of group states as a band, with rebalances by trigger below it; a time can be selected on it.

import { brush } from "./brush.js";
import { h, redrawOnChange, replaceContent, svg } from "./dom.js";
import { clock, plural, span } from "./format.js";
import { clientOf, shortTrigger, STATES } from "./labels.js";
import { now } from "./now.js";

const HOUR_MS = 3_600_000;
const WINDOWS = [["5 min", HOUR_MS / 12], ["15 min", HOUR_MS / 4], ["1 h", HOUR_MS], ["6 h", 6 * HOUR_MS], ["24 h", 24 * HOUR_MS]];
const LABELS_PX = 190, BAND_PX = 44, LANE_PX = 20, AXIS_PX = 22, TICK_PX = 90, TICKS_MAX = 6, THINNEST_PX = 1.5, WORTH_NAMING = 3, UNKNOWN_PX = 1;
const UNKNOWN = "unknown";
const HEIGHTS = { PreparingRebalance: 40, CompletingRebalance: 26, Stable: 10, Empty: 3, Dead: 0 };

/**
 * Return a function that draws transitions and rebalances, both newest first, into an element; `isCut` says of each whether older ones exist.
 * `choose` is called with the time that the user selects, {from, to} in ms, or null; `clear` of the function clears the selection.
 */
export function timeline(element, choose) {
  const picture = h("div", { class: "timeline", tabindex: "0", role: "group", "aria-label": "Timeline: arrow keys select a time, Escape clears the selection" });
  const note = h("p", { class: "muted", role: "status" });
  const sentence = h("p", { class: "sum" });
  const choice = h("div", { class: "time-range", role: "group", "aria-label": "Time range" });
  replaceContent(element, h("div", { class: "row spread" }, sentence, choice), picture, note, legend());
  let windowMs = null;
  let selected = null;
  let shown = { from: now() - HOUR_MS, to: now(), width: 400 };
  const drawNote = redrawOnChange(note, (range) => range && ["Selected: ", h("strong", {}, timeRange(range)), " ", h("button", { type: "button", class: "quiet", "data-key": "clear-time", onclick: () => selection.clear() }, "Clear ", h("kbd", {}, "Esc"))], { ages: false });
  const drawChoice = redrawOnChange(choice, (chosen) => WINDOWS.map(([name, ms]) => h("button", { type: "button", class: "quiet", "data-key": name, "aria-pressed": String(ms === chosen), onclick: () => { windowMs = ms; draw(...last); } }, name)));
  let last = [[], [], { transitions: false, rebalances: false }];
  const draw = (transitions, rebalances, isCut) => {
    last = [transitions, rebalances, isCut];
    windowMs ??= fitting(transitions);
    const span_ = { from: now() - windowMs, to: now() };
    const spans = spansOf(transitions, span_, isCut.transitions);
    const width = Math.max(picture.clientWidth, 400);
    shown = { ...span_, width };
    const inside = rebalances.filter((each) => end(each) >= span_.from);
    replaceContent(sentence, summary(inside, span_, isCut.rebalances && inside.length === rebalances.length));
    replaceContent(picture, drawn(spans, lanesOf(inside), span_, width, selected));
    drawNote(selected);
    drawChoice(windowMs);
  };
  const axisPlace = () => {
    const scale = Math.min(picture.clientWidth / shown.width, 1);
    return { from: shown.from, to: shown.to, left: LABELS_PX * scale, width: (shown.width - LABELS_PX) * scale };
  };
  const selection = brush(picture, axisPlace, (next) => { selected = next; draw(...last); }, choose);
  draw.clear = () => selected && selection.clear();
  return draw;
}

/** Format a time from its start to its end. */
export const timeRange = ({ from, to }) => `${clock(from)} – ${clock(to)}, ${span(to - from)}`;

/** Return the shortest time range that covers the group's whole history, at most one hour. */
function fitting(transitions) {
  const age = transitions.length ? now() - Date.parse(transitions.at(-1).at) : Infinity;
  return WINDOWS.map(([, ms]) => ms).find((ms) => age < ms && ms <= HOUR_MS) ?? HOUR_MS;
}

const start = (rebalance) => Date.parse(rebalance.started_at);
const end = (rebalance) => (rebalance.completed_at ? Date.parse(rebalance.completed_at) : now());
const took = (rebalance, from = 0) => Math.max(end(rebalance) - Math.max(start(rebalance), from), 0);

/** Return the states within a time range, oldest first: {state, from, to}; before the oldest loaded transition the state is unknown. */
function spansOf(transitions, { from, to }, isCut) {
  const oldestFirst = transitions.map((each) => ({ state: each.to_state, at: Date.parse(each.at) })).reverse();
  if (isCut && oldestFirst[0]?.at > from) oldestFirst.unshift({ state: UNKNOWN, at: from });
  return oldestFirst.map(({ state, at }, index) => ({ state, from: Math.max(at, from), to: oldestFirst[index + 1]?.at ?? to }))
    .filter((each) => each.to >= from);
}

/** Return the rebalances by trigger, the most frequent first. */
function lanesOf(rebalances) {
  const lanes = Map.groupBy(rebalances, (each) => each.trigger);
  return [...lanes].sort(([, one], [, other]) => other.length - one.length);
}

/** Return the number of rebalances, the time spent in them, and the most frequent trigger; if older ones are not loaded, the share is that of the time since. */
function summary(rebalances, { from, to }, isCut) {
  if (!rebalances.length) return `No rebalance in the last ${span(to - from)}.`;
  const [trigger, many] = lanesOf(rebalances)[0];
  const known = isCut ? Math.max(from, Math.min(...rebalances.map(start))) : from;
  const rebalancing = rebalances.reduce((sum, each) => sum + took(each, known), 0);
  const share = (100 * rebalancing) / (to - known);
  return [isCut && "Latest ", h("strong", {}, plural(rebalances.length, "rebalance")), ` in the last ${span(to - known)}. `,
    `Time spent rebalancing: ${span(rebalancing)} (${share < 1 ? "under 1" : Math.round(share)} %). Most frequent trigger: `,
    h("strong", {}, shortTrigger(trigger)), ` (${many.length}×).`, mostly(rebalances)];
}

/** Name the client that triggered most rebalances: each eviction and rejoin of a member triggers two. */
function mostly(rebalances) {
  const begun = rebalances.filter((each) => each.trigger_member_id);
  const [client, triggered] = [...Map.groupBy(begun, (each) => clientOf(each.trigger_member_id))].sort(([, one], [, other]) => other.length - one.length)[0] ?? ["", []];
  if (triggered.length < WORTH_NAMING || triggered.length < rebalances.length / 2) return null;
  return [" Most triggered by ", h("strong", {}, client), ` (${triggered.length} of ${rebalances.length}).`];
}

function drawn(spans, lanes, window_, width, selected) {
  const height = BAND_PX + lanes.length * LANE_PX + AXIS_PX;
  const inner = width - LABELS_PX;
  const x = (at) => LABELS_PX + (inner * (Math.max(at, window_.from) - window_.from)) / (window_.to - window_.from);
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description(spans, lanes) },
    patterns(), axis(window_, x, height),
    svg("text", { x: 0, y: BAND_PX - 6, class: "label" }, "State"),
    spans.map((each) => block(each, x)),
    lanes.flatMap(([trigger, rebalances], index) => lane(trigger, rebalances, x, BAND_PX + index * LANE_PX, width)),
    selected && selected.to > window_.from && svg("rect", { x: x(selected.from), y: 0, width: Math.max(x(selected.to) - x(selected.from), THINNEST_PX), height: height - AXIS_PX, class: "brush" }));
}

function description(spans, lanes) {
  const last = spans.at(-1);
  return `Now ${STATES[last?.state]?.name ?? "unknown"}. ${lanes.map(([trigger, all]) => `${plural(all.length, "rebalance")}: ${shortTrigger(trigger)}`).join(". ")}`;
}

function block({ state, from, to }, x) {
  const height = state === UNKNOWN ? UNKNOWN_PX : HEIGHTS[state] ?? 0;
  return svg("rect", { x: x(from), y: BAND_PX - 2 - height, width: Math.max(x(to) - x(from), THINNEST_PX), height, class: `state ${state}` },
    svg("title", {}, `${STATES[state]?.name ?? "Unknown: only the latest state changes are loaded"}: ${clock(from)} – ${clock(to)}, ${span(to - from)}`));
}

function lane(trigger, rebalances, x, y, width) {
  const middle = y + LANE_PX / 2;
  return [
    svg("line", { x1: LABELS_PX, x2: width, y1: middle, y2: middle, class: "lane" }),
    svg("text", { x: 0, y: middle + 4, class: "label" }, `${rebalances.length}× ${shortTrigger(trigger)}`),
    ...rebalances.map((each) => {
      const from = x(Date.parse(each.started_at));
      return svg("rect", { x: from, y: y + 4, width: Math.max(x(end(each)) - from, 3), height: LANE_PX - 8, class: `mark ${each.outcome ?? "under-way"}` },
        svg("title", {}, `${clock(each.started_at)}: ${shortTrigger(trigger)}, ${each.outcome ?? "in progress"}, ${span(took(each))}`));
    }),
  ];
}

function axis({ from, to }, x, height) {
  const ticks = Math.min(TICKS_MAX, Math.floor((x(to) - x(from)) / TICK_PX));
  return Array.from({ length: ticks + 1 }, (_, index) => {
    const at = from + ((to - from) * index) / ticks;
    const anchor = index === 0 ? "start" : index === ticks ? "end" : "middle";
    return [
      svg("line", { x1: x(at), x2: x(at), y1: 0, y2: height - AXIS_PX, class: "grid" }),
      svg("text", { x: x(at), y: height - 6, class: "tick", "text-anchor": anchor }, index === ticks ? "now" : tick(at, to - from)),
    ];
  }).flat();
}

function tick(at, length) {
  const seconds = length < HOUR_MS / 2 ? { second: "2-digit" } : {};
  return new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...seconds });
}

/** Return stripe patterns, which distinguish the rebalancing states without colour. */
function patterns() {
  const stripes = (id, angle, gap) => svg("pattern", { id, width: gap, height: gap, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
    svg("rect", { width: gap, height: gap, class: "ground" }), svg("line", { x1: 0, y1: 0, x2: 0, y2: gap, class: "stripe" }));
  return svg("defs", {}, stripes("preparing", 45, 6), stripes("completing", 135, 4));
}

function legend() {
  return h("ul", { class: "legend" }, Object.keys(HEIGHTS).filter((state) => HEIGHTS[state]).map((state) =>
    h("li", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { width: 14, height: Math.max(HEIGHTS[state] / 3, 2), y: 14 - Math.max(HEIGHTS[state] / 3, 2), class: `state ${state}` })), ` ${STATES[state].name}: ${STATES[state].hint}`)),
    h("li", {}, svg("svg", { width: 14, height: 12, "aria-hidden": "true" }, svg("rect", { x: 1, y: 1, width: 12, height: 10, class: "mark emptied" })), " a rebalance that ended empty or was abandoned"),
    h("li", {}, "Drag over it, or use the arrow keys, to list the rebalances and member sessions of a time."));
}
