// The notice of a quarantined group: the reason, and the command that reloads the group.

import { h } from "./dom.js";
import { toast } from "./toast.js";

const NOT_PRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;
const PLAIN_WORD = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

/** Return the notice; `reason` is the node's sentence about its rows. */
export function quarantineNotice(groupId, reason) {
  const command = `muster groups reload ${argument(groupId)}`;
  return h("div", { class: "notice bad", role: "alert", "aria-label": "Quarantine" },
    h("p", {}, h("strong", {}, "This group is quarantined"), `: ${reason}.`),
    h("p", {}, "Requests of its members are rejected and retried. Nothing is written for it; committed offsets are kept. Other groups are not affected."),
    h("p", {}, "Repair its rows in the tables groups and members with SQL, or remove what else is the cause, then run:"),
    h("div", { class: "command" }, h("code", {}, command),
      navigator.clipboard && h("button", { type: "button", "data-key": "copy-reload", onclick: () => copy(command) }, "Copy")));
}

async function copy(command) {
  await navigator.clipboard.writeText(command);
  toast("Command copied.");
}

/** Return the argument, quoted for the shell unless it is a plain word; characters that a terminal would act on are escaped. */
function argument(text) {
  if (PLAIN_WORD.test(text)) return text;
  if (!NOT_PRINTABLE.test(text)) return `-- '${text.replaceAll("'", "'\\''")}'`;
  const octal = [...new TextEncoder().encode(text)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`);
  return `-- $'${octal.join("")}'`;
}
