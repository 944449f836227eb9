// All changes by operators and jobs, of every group and of the cluster, newest first, with filters.

import { read } from "./api.js";
import { changesTable } from "./changes_list.js";
import { h, redrawOnChange, replaceContent } from "./dom.js";
import { pageKeys } from "./keys.js";
import { action, ACTIONS } from "./labels.js";
import { paging, pagingKeys } from "./paging.js";
import { poll } from "./poll.js";

const EVERY_MS = 5_000;
const TYPING_MS = 150;
const ROWS = 50;

/** Show all changes that match the filters, which the address holds. */
export function changesPage(main, _, query) {
  const field = (name, label, placeholder) => {
    const input = h("input", { type: "search", id: `changes-${name}`, name, value: query.get(name) ?? "", placeholder, autocomplete: "off", spellcheck: "false", oninput: typed });
    return [input, h("div", { class: "field inline" }, h("label", { for: input.id }, label), input)];
  };
  const [actor, actorField] = field("actor", ["Actor ", h("kbd", {}, "/")], "actor contains");
  const [group, groupField] = field("group_id", "Group", "exact group id");
  const kind = h("select", { id: "changes-action", onchange: filter }, h("option", { value: "" }, "all"), ACTIONS.map((name) => h("option", { value: name }, action(name))));
  kind.value = ACTIONS.includes(query.get("action")) ? query.get("action") : "";
  const empty = h("input", { type: "checkbox", id: "changes-empty", checked: query.has("empty_runs"), onchange: filter });
  const table = h("div", {}, h("p", { class: "empty-state" }, "Loading…"));
  const foot = h("div", { class: "pagination" });
  replaceContent(main, h("h1", {}, "Changes"),
    h("form", { class: "row filters", role: "search", onsubmit: (event) => event.preventDefault() }, actorField,
      h("div", { class: "field inline" }, h("label", { for: kind.id }, "Change"), kind), groupField,
      h("div", { class: "field inline" }, empty, h("label", { for: empty.id }, "Maintenance runs that found nothing"))),
    table, foot);
  const draw = redrawOnChange(table, (changes, isFiltered) => (changes.length || !isFiltered ? changesTable(changes, () => poller.now(), { withGroup: true }) : nothing()));
  const pages = paging(() => poller.now());
  const drawFoot = redrawOnChange(foot, (next, number) => [h("span", {}, `Page ${number}`), pages.buttons(number, next)]);
  let timer = 0;
  let requests = 0;
  const poller = poll(load, EVERY_MS);
  pageKeys([
    ["/", "focus the filter by actor", () => { actor.focus(); actor.select(); }],
    ["x", "clear the filters", () => { actor.value = group.value = kind.value = ""; empty.checked = false; filter(); }],
    ...pagingKeys(foot),
  ]);

  async function load() {
    const [ticket, number, wanted] = [++requests, pages.number(), filters()];
    const shown = await read("/v1/changes", { empty_runs: false, ...wanted, limit: ROWS, cursor: pages.cursor() });
    if (ticket !== requests) return;
    draw(shown.changes, Object.keys(wanted).length > 0);
    drawFoot(shown.next_cursor, number);
  }

  /** Return the filters that are set, as parameters of the address and of the request. */
  function filters() {
    const given = { actor: actor.value, action: kind.value, group_id: group.value, empty_runs: empty.checked ? "true" : "" };
    return Object.fromEntries(Object.entries(given).filter(([, value]) => value));
  }

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(filter, TYPING_MS);
  }

  function filter() {
    clearTimeout(timer);
    pages.restart();
    const search = new URLSearchParams(filters()).toString();
    history.replaceState(null, "", `#/changes${search ? `?${search}` : ""}`);
    poller.now();
  }

  return {
    stop: () => { poller.stop(); clearTimeout(timer); },
    isSameView: (parts) => parts.toString() === new URLSearchParams(filters()).toString(),
  };
}

function nothing() {
  return h("div", { class: "empty-state" }, h("p", {}, "No matching changes."), h("p", {}, "Press ", h("kbd", {}, "x"), " to clear the filters."));
}
