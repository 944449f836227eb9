// Maintenance runs with their status; runs that wait for a decision come first.

import { read } from "./api.js";
import { h, linkRow, redrawOnChange, replaceContent, tableHead } from "./dom.js";
import { clock, count, NONE, plural } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { poll } from "./poll.js";
import { countsLine } from "./run_counts.js";
import { plain } from "./labels.js";

const EVERY_MS = 5_000;
export const STATUSES = {
  proposed: ["◇", "warn", "waiting for a decision"],
  applying: ["◐", "warn", "being applied"],
  applied: ["●", "good", "completed"],
  rejected: ["✕", "idle", "rejected"],
  failed: ["!", "bad", "failed"],
};

/** Show the newest maintenance runs; decided runs without candidates are hidden unless the address or the box includes them. */
export function runsPage(main, _, query) {
  const table = h("div", { class: "scroll" }, h("p", { class: "empty-state" }, "Loading…"));
  const empty = h("input", { type: "checkbox", id: "runs-empty", checked: query.has("empty_runs"), onchange: filter });
  replaceContent(main, h("div", { class: "row spread" }, h("h1", {}, "Maintenance runs"), h("p", { class: "muted" }, "A job proposes candidates. Nothing is removed until the run is applied; each candidate is then checked again.")),
    h("div", { class: "row filters" }, h("div", { class: "field inline" }, empty, h("label", { for: empty.id }, "Runs that found nothing"))), table);
  const draw = redrawOnChange(table, list);
  const poller = poll(async () => {
    const [waiting, newest] = await Promise.all([{ status: "proposed" }, {}].map((wanted) => read("/v1/maintenance/runs", wanted)));
    draw(waiting.runs, newest.runs.filter((run) => run.status !== "proposed"), empty.checked);
  }, EVERY_MS);
  pageKeys(rowKeys(table));

  function filter() {
    history.replaceState(null, "", `#/maintenance${empty.checked ? "?empty_runs=true" : ""}`);
    poller.now();
  }

  return { stop: poller.stop, isSameView: (parts) => parts.has("empty_runs") === empty.checked };
}

const foundNothing = (run) => run.counts.candidates === 0 && ["applied", "rejected"].includes(run.status);

/** Return a run's status as a sign, a word and a colour. */
export function statusBadge(status) {
  const [sign, tone, hint] = STATUSES[status] ?? ["?", "idle", ""];
  return h("span", { class: `badge ${tone}`, title: hint }, h("span", { "aria-hidden": "true" }, sign), ` ${status}`);
}

function list(waiting, others, isWithEmpty) {
  const all = [...waiting, ...others];
  const runs = isWithEmpty ? all : all.filter((run) => !foundNothing(run));
  if (!runs.length && all.length) return h("p", { class: "empty-state" }, `The last ${plural(all.length, "run")} found nothing.`);
  if (!runs.length) return h("div", { class: "empty-state" }, h("p", {}, "No runs yet."), h("p", {}, "The Airflow DAGs offset_retention, group_cleanup and history_archive propose runs."));
  return h("table", { class: "list", "aria-label": "Maintenance runs" },
    tableHead([["Status"], ["Kind"], ["As of"], ["Candidates", "number"], ["Examined", "number"], ["By reason and outcome"], ["Run"]]),
    h("tbody", {}, runs.map(row)));
}

function row(run) {
  const to = `#/maintenance/${run.run_id}`;
  return linkRow(to, { "data-key": run.run_id },
    h("td", {}, statusBadge(run.status), run.dry_run && h("span", { class: "tag" }, "dry run")),
    h("td", {}, plain(run.kind)), h("td", { title: run.as_of }, clock(run.as_of)),
    h("td", { class: "number" }, count(run.counts.candidates)), h("td", { class: "number" }, count(run.counts.of)),
    h("td", { class: "wide" }, countsLine(run.counts) || NONE),
    h("td", { class: "id" }, h("a", { href: to, title: run.run_id }, run.run_id.slice(0, 8))));
}
