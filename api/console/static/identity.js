// The user's name and token: the name is stored in the browser, the token until the tab is closed.

import { form, isOpen } from "./dialog.js";

const ACTOR = "muster.actor";
const TOKEN = "muster.token";

/** Return the actor name that changes are recorded under, or "". */
export const actor = () => localStorage.getItem(ACTOR) ?? "";

/** Return the bearer token, or "". */
export const token = () => sessionStorage.getItem(TOKEN) ?? "";

/** Store the name in the browser. */
export function rememberActor(name) {
  localStorage.setItem(ACTOR, name);
  document.dispatchEvent(new CustomEvent("identity-changed"));
}

function rememberToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** Ask for name and token; resolves to whether the user submitted them. */
export async function askIdentity(message = "") {
  const given = await form({
    title: "Sign in",
    text: message || "Your name is recorded with every change. A cluster with authentication also needs a token.",
    verb: "Sign in",
    fields: [
      { name: "actor", label: "Your name", value: actor(), autocomplete: "username" },
      { name: "token", label: "Bearer token", value: token(), type: "password", hint: "stored until this tab is closed" },
    ],
  });
  if (given === null) return false;
  rememberToken(given.token.trim());
  rememberActor(given.actor.trim());
  return true;
}

/** Ask for the reason of a change and the actor's name; resolves to the fields' values, or null if the user cancels, or if a button was pressed twice. */
export async function askReason({ fields = [], reason = "", ...rest }) {
  if (isOpen()) return null;
  const given = await form({
    ...rest,
    isChange: true,
    fields: [
      ...fields,
      { name: "reason", label: "Reason", value: reason, required: true, maxlength: 1000, hint: "recorded in the audit log" },
      { name: "actor", label: "Your name", value: actor(), required: true, maxlength: 200, autocomplete: "username" },
    ],
    before: (values) => rememberActor(values.actor.trim()),
  });
  return given;
}
