// Diagnosis of a group's last hour: findings, each with a button that changes the suggested setting.

import { h } from "./dom.js";
import { clock, span } from "./format.js";
import { changeSetting } from "./settings_section.js";
import { plain } from "./labels.js";
import { now } from "./now.js";

/** A time in a finding; without a date, one of the last hour. */
const TIME = /(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d:\d\d) UTC/g;
const HOUR_MS = 3_600_000, DAY_MS = 24 * HOUR_MS;

/** Return the findings as a list; empty if there are none. */
export function findings(groupId, found, again) {
  if (!found.length) return [];
  return h("aside", { class: "notice findings", "aria-label": "Diagnosis" }, h("h2", {}, "Diagnosis of the last hour"), h("ul", {}, found.map((each) => h("li", {}, sentences(each), remedy(groupId, each, again)))));
}

const nameOf = (each) => each.group_instance_id ?? each.client_id;

/** Return a finding's text with the client's name, with which it begins, in bold. */
function sentences(each) {
  const name = nameOf(each);
  return [h("strong", {}, name), each.text.slice(name.length).replace(TIME, (_, day, time) => local(day, time)), " "];
}

function local(day, time) {
  if (day) return clock(`${day}T${time}Z`);
  const today = Date.parse(`${new Date(now()).toISOString().slice(0, 10)}T${time}Z`);
  return clock(today > now() + HOUR_MS ? today - DAY_MS : today);
}

function remedy(groupId, each, again) {
  if (!each.setting) return null;
  const label = each.value === null ? `Change ${each.setting}…` : `Try ${span(each.value)}…`;
  return h("button", { type: "button", "data-key": `remedy-${each.kind}-${nameOf(each)}-${each.client_host}`, onclick: () => changeSetting(groupId, each.setting, again, { suggested: each.value, source: "the diagnosis of the last hour", reason: `diagnosis: ${nameOf(each)}, ${plain(each.kind)}` }) }, label);
}
