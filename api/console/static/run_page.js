// One maintenance run: its candidates page by page, and the buttons to apply or reject it.

import { change, read } from "./api.js";
import { undoOf } from "./changes_list.js";
import { h, redrawOnChange, replaceContent, tableHead } from "./dom.js";
import { clock, count, plural } from "./format.js";
import { askReason } from "./identity.js";
import { pageKeys, rowKeys } from "./keys.js";
import { paging, pagingKeys } from "./paging.js";
import { poll } from "./poll.js";
import { countsTable, meaning } from "./run_counts.js";
import { STATUSES, statusBadge } from "./runs_page.js";
import { toast } from "./toast.js";
import { groupAddress, groupLink, plain, topicLink } from "./labels.js";

const EVERY_MS = 2_500;
const ROWS = 100;
const RETENTION = "offset_retention";
const CONSEQUENCES = {
  [RETENTION]: "Offsets that are still due are archived and removed; the change can be undone.",
  group_cleanup: "Groups that are still unused become Dead. That cannot be undone.",
  history_archive: "Days that their copies still equal are dropped; history_restore brings them back.",
};

/** Show one run and its candidates. */
export function runPage(main, [runId]) {
  const path = `/v1/maintenance/runs/${encodeURIComponent(runId)}`;
  const head = h("div", {});
  const table = h("div", { class: "scroll" }, h("p", { class: "empty-state" }, "Loading…"));
  const foot = h("div", { class: "pagination" });
  const pages = paging(() => poller.now());
  replaceContent(main, h("p", { class: "breadcrumb" }, h("a", { href: "#/maintenance" }, "Maintenance")), head, table, foot);
  const drawHead = redrawOnChange(head, (run) => heading(run, decide));
  const drawTable = redrawOnChange(table, (candidates, ofHistory) => (ofHistory.length ? days(ofHistory) : list(candidates)));
  const drawFoot = redrawOnChange(foot, below);
  const poller = poll(load, EVERY_MS);
  pageKeys([
    ["a", "apply the run", () => head.querySelector("[data-key=apply]")?.click()],
    ["r", "reject the run", () => head.querySelector("[data-key=reject]")?.click()],
    ["u", "back to the runs", () => (location.hash = "#/maintenance")],
    ...rowKeys(table),
    ...pagingKeys(foot),
  ]);

  async function load() {
    const number = pages.number();
    try {
      const [run, page] = await Promise.all([read(path), read(`${path}/candidates`, { limit: ROWS, cursor: pages.cursor() })]);
      drawHead(run);
      drawTable(page.candidates, page.days ?? []);
      drawFoot(page.next_cursor, number, page.candidates.length + (page.days?.length ?? 0));
    } catch (refusal) {
      if (!head.hasChildNodes()) replaceContent(table, h("p", { class: "empty-state problem", role: "alert" }, refusal.message));
      throw refusal;
    }
  }

  async function decide(verb, run) {
    const isApply = verb === "apply";
    const done = await askReason({
      title: isApply ? "Apply this run?" : "Reject this run?",
      text: isApply
        ? `${run.counts.candidates === undefined ? "All candidates are" : `${plural(run.counts.candidates, "candidate")} ${run.counts.candidates === 1 ? "is" : "are"}`} checked again first. ${CONSEQUENCES[run.kind] ?? ""}`
        : "Rejection is final. Later runs with the same candidates are rejected too.",
      verb: isApply ? "Apply" : "Reject", danger: isApply,
      act: ({ reason }, key) => change("POST", `${path}/${verb}`, { body: isApply ? { reason, candidates: run.counts.candidates } : { reason }, key }),
    });
    if (done) toast(isApply ? "Applying the run." : "Run rejected.", isApply && run.kind === RETENTION && undoOf(done, poller.now));
    poller.now();
  }

  function below(next, number, rows) {
    if (number === 1 && !next) return [h("span", {}, `${count(rows)} shown`)];
    return [h("span", {}, `Page ${number}`), pages.buttons(number, next)];
  }

  return { stop: poller.stop };
}

function heading(run, decide) {
  return [
    h("div", { class: "row spread" },
      h("h1", {}, plain(run.kind), " ", statusBadge(run.status), run.dry_run && h("span", { class: "tag" }, "dry run")),
      run.status === "proposed" && h("div", { class: "buttons" },
        h("button", { type: "button", "data-key": "reject", onclick: () => decide("reject", run) }, "Reject… ", h("kbd", {}, "r")),
        h("button", { type: "button", class: "primary", "data-key": "apply", onclick: () => decide("apply", run) }, "Apply… ", h("kbd", {}, "a")))),
    h("dl", { class: "facts" },
      fact("Status", STATUSES[run.status]?.[2] ?? run.status), fact("As of", clock(run.as_of)),
      run.interval_start && fact("Interval", `${clock(run.interval_start)} – ${clock(run.interval_end)}`),
      fact("Run", run.run_id),
      run.decision && fact("Decided by", decided(run.decision)),
      run.held_by && fact("Same candidates as", [h("a", { href: `#/maintenance/${run.held_by.run_id}` }, run.held_by.run_id.slice(0, 8)), ", rejected by ", decided(run.held_by)])),
    countsTable(run.counts),
  ];
}

const decided = ({ actor, at, reason }) => `${actor} at ${clock(at)}${reason ? `: ${reason}` : ""}`;

const fact = (term, what) => h("div", {}, h("dt", {}, term), h("dd", {}, what));

function days(found) {
  return h("table", { class: "list", "aria-label": "Days of history" },
    tableHead([["Table"], ["Day"], ["Rows", "number"], ["Path"], ["Outcome"]]),
    h("tbody", {}, found.map((each) => h("tr", {},
      h("td", {}, each.table), h("td", {}, each.day), h("td", { class: "number" }, count(each.row_count)),
      h("td", { class: "id" }, h("span", { title: each.path }, each.path)), outcome(each)))));
}

const outcome = (each) => h("td", { title: meaning(each.outcome ?? "undecided") }, each.outcome ? plain(each.outcome) : h("span", { class: "muted" }, "undecided"));

function list(candidates) {
  if (!candidates.length) return h("p", { class: "empty-state" }, "No candidates of this run are stored.");
  const isOffsets = candidates.some((each) => each.topic !== null);
  const titles = isOffsets ? [["Topic"], ["Partition", "number"], ["Committed"]] : [["Generation", "number"], ["Empty since"]];
  return h("table", { class: "list", "aria-label": "Candidates" },
    tableHead([["Group"], ...titles, ["Reason"], ["Outcome"]]),
    h("tbody", {}, candidates.map((each) => row(each, isOffsets))));
}

function row(each, isOffsets) {
  return h("tr", { tabindex: "-1", "data-row": groupAddress(each.group_id), "data-key": JSON.stringify([each.group_id, each.topic, each.partition]) },
    h("td", { class: "id" }, groupLink(each.group_id)),
    isOffsets
      ? [h("td", { class: "id" }, topicLink(each.topic)), h("td", { class: "number" }, each.partition), h("td", {}, clock(each.committed_at))]
      : [h("td", { class: "number" }, count(each.generation)), h("td", {}, clock(each.state_since))],
    h("td", { title: meaning(each.reason) }, each.reason ? plain(each.reason) : ""),
    outcome(each));
}
