// The list of topics, the highest lag first; the node filters, sorts and paginates it.

import { read } from "./api.js";
import { h, linkRow, redrawOnChange, replaceContent, tableHead } from "./dom.js";
import { clock, count, lag, NONE } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { topicAddress, topicLink } from "./labels.js";
import { paging, pagingKeys } from "./paging.js";
import { poll } from "./poll.js";

const EVERY_MS = 10_000;
const TYPING_MS = 150;
const ROWS = 50;
const TITLES = [["Topic", ""], ["Partitions", "number"], ["Groups that read it", "number"], ["Lag of all groups", "number"]];

/** Show the list of topics that match the filter, which the address holds. */
export function topicsPage(main, _, query) {
  const field = h("input", { type: "search", id: "topics-filter", value: query.get("q") ?? "", placeholder: "topic contains", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/", oninput: typed });
  const table = h("div", { class: "scroll" }, h("p", { class: "empty-state" }, "Loading…"));
  const foot = h("div", { class: "pagination" });
  replaceContent(main, h("h1", { class: "visually-hidden" }, "Topics"),
    h("div", { class: "row" }, h("div", { class: "field inline" }, h("label", { for: field.id }, "Filter ", h("kbd", {}, "/")), field)), table, foot);
  const draw = redrawOnChange(table, (topics, text) => (topics.length ? list(topics) : nothing(text)));
  const pages = paging(() => poller.now());
  const drawFoot = redrawOnChange(foot, below, { ages: false });
  let timer = 0;
  let requests = 0;
  const poller = poll(load, EVERY_MS);
  pageKeys([
    ["/", "focus the filter", () => { field.focus(); field.select(); }],
    ...rowKeys(table),
    ...pagingKeys(foot),
    ["x", "clear the filter", () => { field.value = ""; filter(); }],
  ]);

  async function load() {
    const [ticket, q, number] = [++requests, field.value, pages.number()];
    const shown = await read("/v1/overview/topics", { q, limit: ROWS, cursor: pages.cursor() });
    if (ticket !== requests) return;
    draw(shown.topics, q);
    drawFoot(shown, number);
  }

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(filter, TYPING_MS);
  }

  function filter() {
    clearTimeout(timer);
    pages.restart();
    history.replaceState(null, "", `#/topics${field.value ? `?${viewQuery()}` : ""}`);
    poller.now();
  }

  const viewQuery = () => new URLSearchParams(field.value ? { q: field.value } : {}).toString();

  function below(shown, number) {
    const first = (number - 1) * ROWS + 1;
    const range = shown.topics.length ? `${count(first)}–${count(first + shown.topics.length - 1)}` : "0";
    return [h("span", { role: "status" }, `${range} of ${count(shown.topic_count)}`), pages.buttons(number, shown.next_cursor)];
  }

  return {
    stop: () => { poller.stop(); clearTimeout(timer); },
    isSameView: (parts) => parts.toString() === viewQuery(),
  };
}

function nothing(text) {
  return h("div", { class: "empty-state" },
    text ? [h("p", {}, "No matching topics."), h("p", {}, "Press ", h("kbd", {}, "x"), " to clear the filter.")]
      : [h("p", {}, "No topics yet."), h("p", {}, "A topic is listed once a group reads it, or its metadata is stored.")]);
}

function list(topics) {
  return h("table", { class: "list", "aria-label": "Topics" },
    tableHead(TITLES),
    h("tbody", {}, topics.map(row)));
}

function row(each) {
  const to = topicAddress(each.topic);
  return linkRow(to, { "data-key": each.topic },
    h("td", { class: "id" }, topicLink(each.topic)),
    h("td", { class: "number", title: each.partition_count === null ? "no topic metadata" : null }, count(each.partition_count)),
    h("td", { class: "number" }, each.group_count || h("span", { class: "muted" }, "0")),
    h("td", { class: "number", title: each.log_end_at ? `log ends last reported ${clock(each.log_end_at)} or later` : NONE }, lag(each.lag, each.is_lag_lower_bound, each.log_end_at, count)));
}
