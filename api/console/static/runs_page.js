// What maintenance proposed and did: every run with its status, and what waits for somebody to decide first.

import { read } from "./api.js";
import { h, redrawn, swap } from "./dom.js";
import { clock, count } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { poll } from "./poll.js";
import { plain } from "./words.js";

const EVERY_MS = 5_000;
export const STATUSES = {
  proposed: ["◇", "warn", "waits for somebody to decide"],
  applying: ["◐", "warn", "is being worked off"],
  applied: ["●", "good", "is done"],
  rejected: ["✕", "idle", "was turned down"],
  failed: ["!", "bad", "broke off"],
};

/** Show the newest maintenance runs. */
export function runsPage(main) {
  const table = h("div", { class: "scroll" }, h("p", { class: "blank" }, "Loading…"));
  swap(main, h("div", { class: "row spread" }, h("h1", {}, "Maintenance runs"), h("p", { class: "faint" }, "Jobs propose; nothing is taken before a run is applied, and each candidate is judged again then.")), table);
  const draw = redrawn(table, list);
  const poller = poll(async () => draw((await read("/v1/maintenance/runs")).runs), EVERY_MS);
  pageKeys(rowKeys(() => [...table.querySelectorAll("[data-row]")], (row) => (location.hash = row.dataset.row)));
  return { stop: poller.stop };
}

/** Show a run's status by sign, word and colour. */
export function statusBadge(status) {
  const [sign, tone, hint] = STATUSES[status] ?? ["?", "idle", ""];
  return h("span", { class: `badge ${tone}`, title: hint }, h("span", { "aria-hidden": "true" }, sign), ` ${status}`);
}

/** Say a run's counts in words, the greatest first. */
export function countsOf(counts) {
  const all = Object.entries(counts).sort(([, one], [, other]) => other - one);
  return all.map(([what, many]) => `${count(many)} ${plain(what)}`).join(" · ") || "nothing counted";
}

function list(runs) {
  if (!runs.length) return h("div", { class: "blank" }, h("p", {}, "No run yet."), h("p", {}, "Airflow proposes one when offset_retention or group_cleanup comes due."));
  const waiting = runs.filter((run) => run.status === "proposed");
  return h("table", { class: "list", "aria-label": "Maintenance runs" },
    h("thead", {}, h("tr", {}, ["Status", "Kind", "As of", "Counts", "Run"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, [...waiting, ...runs.filter((run) => run.status !== "proposed")].map(row)));
}

function row(run) {
  const to = `#/maintenance/${run.run_id}`;
  return h("tr", { tabindex: "-1", "data-row": to, "data-key": run.run_id, onclick: (event) => event.target.closest("a") || (location.hash = to) },
    h("td", {}, statusBadge(run.status), run.dry_run && h("span", { class: "tag" }, "dry run")),
    h("td", {}, plain(run.kind)), h("td", { title: run.as_of }, clock(run.as_of)),
    h("td", { class: "wide" }, countsOf(run.counts)),
    h("td", { class: "id" }, h("a", { href: to, title: run.run_id }, run.run_id.slice(0, 8))));
}
