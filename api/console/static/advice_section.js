// Advice from the group's own past: what to change, why, what it would have done, and a button that does it.

import { h } from "./dom.js";
import { count, NONE, setting, span } from "./format.js";
import { changeSetting } from "./settings_section.js";
import { plain } from "./words.js";

const VERDICTS = { change: ["▲", "warn", "change it"], keep: ["●", "good", "leave it"], too_little_data: ["○", "idle", "too little is known"] };

/** Return a card a setting; `tuning` is what the node told, or its refusal. */
export function adviceSection(groupId, tuning, again) {
  if (tuning.refusal) return h("p", { class: "blank" }, `There is no advice: ${tuning.refusal}`);
  const pieces = Object.entries(tuning.advice).sort(([, one], [, other]) => (other.verdict === "change") - (one.verdict === "change"));
  const wider = tuning.recommendations.map((each) => recommendation(each));
  if (!pieces.length) return h("p", { class: "blank" }, "There is no advice for this group.");
  const over = span(Date.parse(tuning.window.to) - Date.parse(tuning.window.from));
  return [h("p", { class: "faint" }, `From the last ${over} of this group${tuning.source === "report" ? ", as the nightly report has it" : ", worked out just now"}.`),
    h("div", { class: "cards" }, pieces.map(([key, piece]) => card(groupId, key, piece, tuning.in_force[key], again)), wider)];
}

function card(groupId, key, piece, inForce, again) {
  const [sign, tone, words] = VERDICTS[piece.verdict] ?? ["?", "idle", plain(piece.verdict)];
  const isChange = piece.verdict === "change";
  return h("article", { class: `card ${isChange ? "wanted" : ""}` },
    h("h3", { class: "key" }, key),
    h("p", {}, h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true" }, sign), ` ${words}`), " ", piece.verdict !== "too_little_data" && h("small", {}, `confidence: ${plain(piece.confidence)}`)),
    isChange && h("p", { class: "from-to" }, `${shown(key, piece.present ?? inForce)} → `, h("strong", {}, setting(key, piece.value))),
    h("p", {}, sentence(piece.because)),
    isChange && effects(piece.effect),
    isChange && h("button", { type: "button", class: "primary", "data-key": `apply-${key}`, onclick: () => changeSetting(groupId, key, piece.value, again, `advice: ${piece.because}`) }, `Apply ${span(piece.value)}…`));
}

/** A change of the clients' configuration, which no button here can make. */
function recommendation({ name, because, effect }) {
  return h("article", { class: "card wanted" },
    h("h3", { class: "key" }, plain(name)),
    h("p", {}, h("span", { class: "badge warn" }, h("span", { "aria-hidden": "true" }, "▲"), " change the clients")),
    h("p", {}, sentence(because)),
    effects(effect));
}

const shown = (key, value) => (value === null || value === undefined ? "as members ask" : setting(key, value));
const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");

function effects(effect) {
  const rows = Object.entries(effect);
  if (!rows.length) return null;
  return h("dl", { class: "effects" }, rows.map(([what, many]) =>
    h("div", {}, h("dt", {}, plain(what.replace(/_ms$/, ""))), h("dd", {}, many === null ? NONE : what.endsWith("_ms") ? span(many) : count(many)))));
}
