// Who sits here: the name is kept on this machine, the token only as long as the tab lives.

import { form } from "./dialog.js";

const ACTOR = "muster.actor";
const TOKEN = "muster.token";

/** Return the name that changes are made under, or "". */
export const actor = () => localStorage.getItem(ACTOR) ?? "";

/** Return the bearer token, or "". */
export const token = () => sessionStorage.getItem(TOKEN) ?? "";

/** Remember the name. */
export function rememberActor(name) {
  localStorage.setItem(ACTOR, name);
  document.dispatchEvent(new CustomEvent("identity-changed"));
}

function rememberToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** Ask for name and token; resolves once they are kept, or at once if nobody wants to say. */
export async function askIdentity(why = "") {
  const given = await form({
    title: "Who are you?",
    text: why || "Your name stands beside every change you make. A token is needed where the nodes ask for one.",
    verb: "Keep",
    fields: [
      { name: "actor", label: "Your name", value: actor(), autocomplete: "username" },
      { name: "token", label: "Bearer token", value: token(), type: "password", hint: "kept until this tab is closed" },
    ],
  });
  if (given === null) return false;
  rememberToken(given.token.trim());
  rememberActor(given.actor.trim());
  return true;
}

/** Ask why something is changed, and by whom; resolves to the fields' values, or null if it is called off. */
export async function askReason({ fields = [], reason = "", ...rest }) {
  const given = await form({
    ...rest,
    fields: [
      ...fields,
      { name: "reason", label: "Reason", value: reason, required: true, maxlength: 1000, hint: "stands in the changes" },
      { name: "actor", label: "Your name", value: actor(), required: true, maxlength: 200, autocomplete: "username" },
    ],
    before: (values) => rememberActor(values.actor.trim()),
  });
  return given;
}
