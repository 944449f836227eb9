// The notice of a quarantined group: what happened, which column is wrong, and the command that serves the group again.

import { h } from "./dom.js";
import { toast } from "./toast.js";

const PLAIN_WORD = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

/** Return the notice; `reason` is the node's own sentence about the rows. */
export function quarantineNotice(groupId, reason) {
  const command = `muster groups reload ${argument(groupId)}`;
  return h("div", { class: "notice bad", role: "alert", "aria-label": "Quarantine" },
    h("p", {}, h("strong", {}, "This group is quarantined"), ` because its stored rows cannot be loaded: ${reason}.`),
    h("p", {}, "Its members are refused and ask again; nothing is written for it, and committed offsets are kept. All other groups are served."),
    h("p", {}, "Repair its rows in the tables groups and members with SQL, then run:"),
    h("div", { class: "command" }, h("code", {}, command),
      navigator.clipboard && h("button", { type: "button", "data-key": "copy-reload", onclick: () => copy(command) }, "Copy")));
}

async function copy(command) {
  await navigator.clipboard.writeText(command);
  toast("The command is copied.");
}

/** Quote what a shell or the command line would take for anything but a name. */
function argument(text) {
  return PLAIN_WORD.test(text) ? text : `-- '${text.replaceAll("'", "'\\''")}'`;
}
