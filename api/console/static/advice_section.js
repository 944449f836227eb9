// Timeout recommendations from the group's history: the value, the reason, the estimated effect, and a button to apply it.

import { h } from "./dom.js";
import { count, NONE, setting, span } from "./format.js";
import { changeSetting } from "./settings_section.js";
import { plain } from "./labels.js";

const VERDICTS = { change: ["▲", "warn", "Change recommended"], keep: ["●", "good", "No change"], too_little_data: ["○", "idle", "Not enough data yet"], not_measured: ["○", "idle", "Not measured in a mirror"] };

const EFFECTS = { stood_still_ms: "time without consumption", stood_still_saved_ms: "time without consumption, avoided", partitions_given_back: "partitions returned to the same member" };

/** Return where an advised value comes from, in words. */
export const adviceSource = ({ because }) => `the advice from this group’s history: ${because}`;

/** Return one card per setting; `tuning` is the node’s response, or its error. */
export function adviceSection(groupId, tuning, again) {
  if (tuning.refusal) return h("p", { class: "empty-state" }, `No recommendation: ${tuning.refusal}`);
  const advised = Object.entries(tuning.advice).sort(([, one], [, other]) => (other.verdict === "change") - (one.verdict === "change"));
  const wider = tuning.recommendations.map((each) => recommendation(each));
  if (!advised.length) return h("p", { class: "empty-state" }, "No recommendations for this group.");
  const over = span(Date.parse(tuning.window.to) - Date.parse(tuning.window.from));
  return [h("p", { class: "muted" }, `Based on the last ${over}${tuning.source === "report" ? ", from the nightly report" : ", calculated now"}.`),
    h("div", { class: "cards" }, advised.map(([key, advice]) => card(groupId, key, advice, tuning.effective[key], again)), wider)];
}

function card(groupId, key, advice, effective, again) {
  const [sign, tone, words] = VERDICTS[advice.verdict] ?? ["?", "idle", plain(advice.verdict)];
  const isChange = advice.verdict === "change";
  return h("article", { class: `card ${isChange ? "recommended" : ""}` },
    h("h3", { class: "key" }, key),
    h("p", {}, h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true" }, sign), ` ${words}`), " ", advice.confidence !== "none" && h("small", {}, `confidence: ${plain(advice.confidence)}`)),
    isChange && h("p", { class: "from-to" }, `${shown(key, advice.present ?? effective)} → `, h("strong", {}, setting(key, advice.value))),
    h("p", {}, sentence(advice.because)),
    isChange && effects(advice.effect),
    isChange && h("button", { type: "button", class: "primary", "data-key": `apply-${key}`, onclick: () => changeSetting(groupId, key, again, { suggested: advice.value, source: adviceSource(advice), reason: `advice: ${advice.because}` }) }, `Apply ${span(advice.value)}…`));
}

/** Return the card of a change to the clients' configuration, which the console cannot make. */
function recommendation({ name, because, effect }) {
  return h("article", { class: "card recommended" },
    h("h3", { class: "key" }, plain(name)),
    h("p", {}, h("span", { class: "badge warn" }, h("span", { "aria-hidden": "true" }, "▲"), " Change the client configuration")),
    h("p", {}, sentence(because)),
    effects(effect));
}

const shown = (key, value) => (value === null || value === undefined ? "set by each client" : setting(key, value));
const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");

function effects(effect) {
  const rows = Object.entries(effect);
  if (!rows.length) return null;
  return h("dl", { class: "effects" }, rows.map(([what, many]) =>
    h("div", {}, h("dt", {}, EFFECTS[what] ?? plain(what.replace(/_ms$/, ""))), h("dd", {}, many === null ? NONE : what.endsWith("_ms") ? span(many) : count(many)))));
}
