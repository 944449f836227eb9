// Modal dialogues: they hold the focus, Escape and leaving the page cancel them, and errors appear in them.

import { h, replaceContent, withKey } from "./dom.js";
import { toast } from "./toast.js";

/** What a required field has: text, and not spaces alone. */
const NOT_BLANK = { pattern: ".*\\S.*", title: "Text, not only spaces" };

/**
 * Show a form; `extra` may add an element below the first field. If `act`, called with the values, raises an error, the dialogue shows its message and remains open.
 * The second argument of `act` is a UUID, the same one while the values are the same: the answer to a change that was made may have been lost.
 * Resolves to the values and the `result` of `act`, or to null if the user cancels. `isChange`: what `act` has begun is not cancelled
 * with the dialogue, so its result counts, and its error is shown in a toast.
 */
export function form({ title, text, verb, fields = [], danger = false, extra, act, before, isChange = false }) {
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const submit = h("button", { type: "submit", class: danger ? "danger" : "primary" }, verb);
    const body = h("form", { method: "dialog" }, h("h2", {}, title), text && h("p", {}, text),
      fields.slice(0, 1).map(row), extra?.(() => valuesOf(body)), fields.slice(1).map(row), problem,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: cancel }, "Cancel"), submit));
    const dialog = shown(title, body, cancel);
    let sent, key;
    body.addEventListener("submit", async (event) => {
      event.preventDefault();
      const values = valuesOf(body);
      submit.disabled = true;
      try {
        before?.(values);
        if (JSON.stringify(values) !== sent) [sent, key] = [JSON.stringify(values), uuid()];
        const result = await act?.(values, key);
        end({ ...values, result });
      } catch (error) {
        if (isChange && !dialog.isConnected) {
          toast(`${verb}: ${error.message}`);
          resolve(null);
        }
        problem.hidden = false;
        replaceContent(problem, error.message);
        submit.disabled = false;
      }
    });

    function cancel() {
      if (isChange && submit.disabled) dialog.remove();
      else end(null);
    }

    function end(values) {
      dialog.remove();
      resolve(values);
    }
  });
}

/** Show content to read; Escape closes it. */
export function sheet(title, ...content) {
  const close = h("button", { type: "button", class: "primary", onclick: () => dialog.remove() }, "Close");
  const dialog = shown(title, h("div", {}, h("h2", {}, title), content, h("div", { class: "buttons" }, close)),
    () => dialog.remove());
}

/** Return whether a dialogue is open. */
export const isOpen = () => document.querySelector("dialog[open]") !== null;

function shown(title, content, onCancel) {
  const dialog = h("dialog", { "aria-label": title, oncancel: onCancel }, content);
  document.body.append(dialog);
  const opener = document.activeElement;
  addEventListener("hashchange", onCancel);
  dialog.showModal();
  new MutationObserver((_, observer) => {
    if (dialog.isConnected) return;
    observer.disconnect();
    removeEventListener("hashchange", onCancel);
    const isRedrawn = !opener?.isConnected && opener?.dataset.key !== undefined;
    (isRedrawn ? withKey(document, opener.dataset.key) : opener)?.focus({ preventScroll: true });
  }).observe(document.body, { childList: true });
  (dialog.querySelector("[data-first]") ?? dialog.querySelector("input, select, button"))?.focus();
  return dialog;
}

function row({ name, label, hint, options, value: given, ...attributes }) {
  const id = `field-${name}`;
  attributes["aria-describedby"] = hint && `${id}-hint`;
  if (attributes.required) Object.assign(attributes, NOT_BLANK);
  const control = options
    ? h("select", { id, name, ...attributes }, options.map((each) => [each].flat()).map(([value, words = value]) => h("option", { value, selected: value === given }, words)))
    : h("input", { id, name, value: given, autocomplete: "off", spellcheck: "false", ...attributes });
  return h("div", { class: "field" }, h("label", { for: id }, label), control,
    hint && h("small", { id: `${id}-hint` }, hint));
}

/** Return a random UUID; `crypto.randomUUID` exists only where the page came over HTTPS or from this machine. */
function uuid() {
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
}

function valuesOf(body) {
  return Object.fromEntries(new FormData(body));
}
