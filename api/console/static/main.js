// The console is a frame around one page at a time; which page, the part of the address after # says.

import { h, swap } from "./dom.js";
import { changesPage } from "./changes_page.js";
import { groupPage } from "./group_page.js";
import { groupsPage } from "./groups_page.js";
import { actor, askIdentity, token } from "./identity.js";
import { alwaysKeys, help, pageKeys } from "./keys.js";
import { runPage } from "./run_page.js";
import { runsPage } from "./runs_page.js";
import { settingsPage } from "./settings_page.js";
import { startTheme, toggleTheme } from "./theme.js";

const ROUTES = [
  [/^\/$/, "groups", groupsPage],
  [/^\/groups\/(.+)$/, "groups", groupPage],
  [/^\/maintenance$/, "maintenance", runsPage],
  [/^\/maintenance\/([^/]+)$/, "maintenance", runPage],
  [/^\/changes$/, "changes", changesPage],
  [/^\/settings$/, "settings", settingsPage],
];
const main = document.getElementById("main");
let leave = () => {};
let isAsking = false;
let isDeclined = false;
let shown = null;

/** Show the page that the address names. */
function route() {
  const [path, query = ""] = (location.hash.slice(1) || "/").split("?");
  if (path === shown?.path && shown.stays?.(new URLSearchParams(query))) return;
  leave();
  pageKeys([]);
  window.scrollTo(0, 0);
  const [found, section, page] = match(path);
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = { path };
  if (!page) {
    leave = () => {};
    swap(main, h("div", { class: "blank" }, h("h1", {}, "There is no such page"), h("a", { href: "#/" }, "To the groups")));
    return;
  }
  const { stop, stays } = page(main, found, new URLSearchParams(query));
  leave = stop;
  shown = { path, stays };
}

function match(path) {
  for (const [pattern, section, page] of ROUTES) {
    const found = pattern.exec(path);
    if (found) return [found.slice(1).map(decoded), section, page];
  }
  return [[], "", null];
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function tellIdentity() {
  const name = actor() || "Who are you?";
  swap(document.getElementById("identity"), name, token() && h("span", { title: "a token is sent" }, " ⚿"));
}

/** Ask for a token once; whoever does not want to give one is not asked again before pressing the button. */
function needToken(event) {
  if (!isAsking && !isDeclined) void introduce(event.detail);
}

async function introduce(why) {
  isAsking = true;
  isDeclined = !(await askIdentity(why));
  isAsking = false;
  if (isDeclined) return;
  shown = null;
  route();
}

startTheme();
tellIdentity();
alwaysKeys([["t", "light or dark", toggleTheme]]);
document.getElementById("theme").addEventListener("click", toggleTheme);
document.getElementById("help").addEventListener("click", help);
document.getElementById("identity").addEventListener("click", () => introduce(""));
document.addEventListener("identity-changed", tellIdentity);
document.addEventListener("token-needed", needToken);
addEventListener("hashchange", route);
route();
