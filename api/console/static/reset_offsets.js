// Offsets are put elsewhere in two steps: what it would do is shown first, and then it wants a reason.

import { change, groupPath } from "./api.js";
import { form } from "./dialog.js";
import { h } from "./dom.js";
import { count, NONE, plural } from "./format.js";
import { askReason } from "./identity.js";
import { toast } from "./toast.js";

const WAYS = [["earliest", "the log’s start"], ["latest", "the log’s end, as it was reported last"], ["datetime", "what was committed at a time"], ["shift", "so many records on, or (below zero) back"], ["offset", "this offset"]];
const FIELDS = { shift: "shift_by", offset: "offset", datetime: "datetime" };
const DAY_ALONE = /^\d{4}-\d{2}-\d{2}$/;
const NAMED = /^(.+?)(?::(\d+(?:,\d+)*))?$/s;

/** Ask where to, show what that would do, and do it. */
export async function resetOffsets(groupId, memberCount, again) {
  let wanted, told;
  const path = groupPath(groupId, "offsets", "reset");
  const tried = await form({
    title: "Reset offsets",
    text: memberCount > 0 ? `The group has ${plural(memberCount, "member")}: stop them first, only an empty group can be reset.` : "Nothing happens yet: first it is shown what would be.",
    verb: "Show what it would do",
    fields: [
      { name: "to", label: "To", options: WAYS },
      { name: "value", label: "How many, which offset, or when", hint: "-100; 812; 2026-11-21T02:13:00 (your time) or …Z; nothing for start and end" },
      { name: "topic", label: "Topic", hint: "orders, or orders:0,7 for some partitions; empty: all that the group has committed" },
    ],
    act: async (values) => {
      wanted = asked(values);
      told = await change("POST", path, { body: { ...wanted, dry_run: true } });
    },
  });
  if (tried === null) return;
  const moved = told.offsets.filter((each) => each.old_offset !== each.new_offset);
  const done = await askReason({
    title: `Reset ${plural(moved.length, "offset")}?`,
    text: moved.length === told.offsets.length ? "" : `${plural(told.offsets.length - moved.length, "partition")} would stay where it is.`,
    verb: "Reset", danger: true, extra: () => table(told.offsets),
    act: ({ reason }) => change("POST", path, { body: { ...wanted, dry_run: false, reason } }),
  });
  if (done) toast("The offsets are reset. It can be undone among the changes.");
  again();
}

function asked({ to, value, topic }) {
  const body = { to };
  if (to in FIELDS) body[FIELDS[to]] = to === "datetime" ? moment(value) : whole(value);
  if (topic.trim()) {
    const [, name, numbers] = NAMED.exec(topic.trim());
    body.topics = [{ topic: name, ...(numbers ? { partitions: numbers.split(",").map(Number) } : {}) }];
  }
  return body;
}

function whole(text) {
  if (!/^[+-]?\d+$/.test(text.trim())) throw new Error("Say how many, or which offset, as a whole number.");
  if (!Number.isSafeInteger(Number(text))) throw new Error("That is more than a browser can count exactly; `muster groups reset-offsets` can.");
  return Number(text);
}

function moment(text) {
  const given = text.trim();
  const at = new Date(DAY_ALONE.test(given) ? `${given}T00:00` : given); // a day alone would be one of UTC
  if (Number.isNaN(at.valueOf())) throw new Error("Say when, as in 2026-11-21T02:13:00.");
  return at.toISOString();
}

function table(offsets) {
  return h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "What it would do" }, h("table", { class: "list" },
    h("thead", {}, h("tr", {}, [["Topic", ""], ["Partition", "number"], ["Now", "number"], ["Then", "number"], ["Moved by", "number"]].map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))),
    h("tbody", {}, offsets.map((each) => h("tr", {}, h("td", { class: "id" }, each.topic), h("td", { class: "number" }, each.partition),
      h("td", { class: "number" }, count(each.old_offset)), h("td", { class: "number" }, h("strong", {}, count(each.new_offset))),
      h("td", { class: "number", title: each.note ?? "" }, each.old_offset === null ? NONE : signed(each.new_offset - each.old_offset), each.note && " *"))))));
}

const signed = (number) => (number > 0 ? `+${count(number)}` : count(number));
