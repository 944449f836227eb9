// Offset reset in two steps: a preview, then a confirmation with a reason.

import { change, groupPath } from "./api.js";
import { undoOf } from "./changes_list.js";
import { form } from "./dialog.js";
import { h, tableHead } from "./dom.js";
import { count, NONE, plural } from "./format.js";
import { askReason } from "./identity.js";
import { toast } from "./toast.js";

const RESET_TARGETS = [["earliest", "log start offset"], ["latest", "log end offset, as last reported"], ["datetime", "offsets committed at a point in time"], ["shift", "shift by a number of records (negative: back)"], ["offset", "specific offset"]];
const FIELDS = { shift: "shift_by", offset: "offset", datetime: "datetime" };
const TIME = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/;
const DAY_ALONE = /^\d{4}-\d{2}-\d{2}$/;
const ZONE = /(Z|[+-]\d{2}:\d{2})$/, AROUND_MS = 3 * 3_600_000;
const NAMED = /^(.+?)(?::(\d+(?:,\d+)*))?$/s;

/** Ask for the new position, show a preview, and reset the offsets after confirmation. */
export async function resetOffsets(groupId, memberCount, again) {
  let target, preview;
  const path = groupPath(groupId, "offsets", "reset");
  const previewed = await form({
    title: "Reset offsets",
    text: memberCount > 0 ? `The group has ${plural(memberCount, "member")}: stop them first; only an Empty group can be reset.` : "The next step is a preview; nothing changes yet.",
    verb: "Preview",
    fields: [
      { name: "to", label: "To", options: RESET_TARGETS },
      { name: "value", label: "Number of records, offset or time", hint: "Examples: -100; 812; 2026-11-21T02:13:00 (local time) or …Z (UTC). Leave empty for log start and log end." },
      { name: "topic", label: "Topic", hint: "Examples: orders; orders:0,7 for two partitions. Leave empty for all partitions with committed offsets." },
    ],
    act: async (values) => {
      target = parsed(values);
      ({ answer: preview } = await change("POST", path, { body: { ...target, dry_run: true } }));
    },
  });
  if (previewed === null) return;
  const moved = preview.offsets.filter((each) => each.old_offset !== each.new_offset);
  const done = await askReason({
    title: `Reset ${plural(moved.length, "offset")}?`,
    text: moved.length === preview.offsets.length ? "" : `${plural(preview.offsets.length - moved.length, "partition")} unchanged.`,
    verb: "Reset", danger: true, extra: () => table(preview.offsets),
    act: ({ reason }, key) => change("POST", path, { body: { ...target, dry_run: false, reason }, key }),
  });
  if (done) toast("Offsets reset.", undoOf(done, again));
  again();
}

function parsed({ to, value, topic }) {
  const body = { to };
  if (to in FIELDS) body[FIELDS[to]] = to === "datetime" ? moment(value) : whole(value);
  if (topic.trim()) {
    const [, name, numbers] = NAMED.exec(topic.trim());
    body.topics = [{ topic: name, ...(numbers ? { partitions: numbers.split(",").map(Number) } : {}) }];
  }
  return body;
}

function whole(text) {
  if (!/^[+-]?\d+$/.test(text.trim())) throw new Error("Enter the number of records or the offset as a whole number.");
  if (!Number.isSafeInteger(Number(text))) throw new Error("The number is too large for a browser; use `muster groups reset-offsets`.");
  return Number(text);
}

function moment(text) {
  const given = text.trim();
  const at = new Date(DAY_ALONE.test(given) ? `${given}T00:00` : given.replace(" ", "T")); // JavaScript reads a date without a time as UTC
  if (!TIME.test(given) || Number.isNaN(at.valueOf())) throw new Error("Enter a time such as 2026-11-21T02:13:00.");
  if (!DAY_ALONE.test(given) && !ZONE.test(given)) checkLocal(given, at);
  return at.toISOString();
}

/** Raise an error if a local time occurs twice or never, because the clocks are changed then. */
function checkLocal(given, at) {
  const [hours, minutes] = given.slice(11, 16).split(":").map(Number);
  const [before, after] = [at - AROUND_MS, +at + AROUND_MS].map((ms) => new Date(ms).getTimezoneOffset());
  const later = new Date(+at + (after - before) * 60_000);
  const isTwice = later > at && later.toTimeString().slice(0, 8) === at.toTimeString().slice(0, 8); // JavaScript takes the first one
  const isNever = at.getHours() !== hours % 24 || at.getMinutes() !== minutes;
  if (isTwice || isNever) throw new Error(`This local time ${isTwice ? "occurs twice" : "does not occur"}: add Z or an offset, as in 2026-11-21T02:13:00+01:00.`);
}

function table(offsets) {
  return h("div", { class: "scroll max-height", tabindex: "0", role: "region", "aria-label": "Preview" }, h("table", { class: "list" },
    tableHead([["Topic", ""], ["Partition", "number"], ["Current offset", "number"], ["New offset", "number"], ["Change", "number"]]),
    h("tbody", {}, offsets.map((each) => h("tr", {}, h("td", { class: "id" }, each.topic), h("td", { class: "number" }, each.partition),
      h("td", { class: "number" }, count(each.old_offset)), h("td", { class: "number" }, h("strong", {}, count(each.new_offset))),
      h("td", { class: "number", title: each.note ?? "" }, each.old_offset === null ? NONE : signed(BigInt(each.new_offset) - BigInt(each.old_offset)), each.note && " *"))))));
}

const signed = (number) => (number > 0 ? `+${count(number)}` : count(number));
