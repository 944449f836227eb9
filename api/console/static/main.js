// Console entry point: routes the address after # to a page, and shows the header.

import { h, replaceContent, visible } from "./dom.js";
import { changesPage } from "./changes_page.js";
import { groupPage } from "./group_page.js";
import { groupsPage } from "./groups_page.js";
import { actor, askIdentity, token } from "./identity.js";
import { globalKeys, help, pageKeys } from "./keys.js";
import { groupName } from "./labels.js";
import { overviewPage } from "./overview_page.js";
import { reportsPage } from "./reports_page.js";
import { runPage } from "./run_page.js";
import { runsPage } from "./runs_page.js";
import { settingsPage } from "./settings_page.js";
import { startTheme, toggleTheme } from "./theme.js";
import { topicPage } from "./topic_page.js";
import { topicsPage } from "./topics_page.js";

const ROUTES = [
  [/^\/(?:groups)?$/, "groups", groupsPage],
  [/^\/groups\/(.*)$/, "groups", groupPage],
  [/^\/topics$/, "topics", topicsPage],
  [/^\/topics\/(.*)$/, "topics", topicPage],
  [/^\/overview$/, "overview", overviewPage],
  [/^\/reports$/, "reports", reportsPage],
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

/** Show the page of the current address. */
function route() {
  const [path, query = ""] = (location.hash.slice(1) || "/").split("?");
  if (path === shown?.path && shown.isSameView?.(new URLSearchParams(query))) return;
  leave();
  pageKeys([]);
  window.scrollTo(0, 0);
  const [found, section, page] = match(path);
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = { path };
  document.title = visible(`${titleOf(section, found)} – Muster`);
  if (!page) {
    leave = () => {};
    replaceContent(main, h("div", { class: "empty-state" }, h("h1", {}, "Page not found"), h("a", { href: "#/" }, "Go to groups")));
    return;
  }
  const { stop, isSameView } = page(main, found, new URLSearchParams(query));
  leave = stop;
  shown = { path, isSameView };
}

/** Return the name of the group, topic or run of a page, or that of its section. */
function titleOf(section, [name]) {
  if (name === undefined) return document.querySelector(`[data-nav="${section}"]`)?.textContent ?? "Page not found";
  return section === "groups" ? groupName(name) : name;
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

function showIdentity() {
  const name = actor() || "Sign in";
  replaceContent(document.getElementById("identity"), name, token() && h("span", { title: "a bearer token is set" }, " ⚿"));
}

/** Ask for a token; after the user cancels, only the button asks again. */
function requestToken(event) {
  if (!isAsking && !isDeclined) void signIn(event.detail);
}

async function signIn(message) {
  isAsking = true;
  isDeclined = !(await askIdentity(message));
  isAsking = false;
  if (isDeclined) return;
  shown = null;
  route();
}

startTheme();
showIdentity();
globalKeys([["t", "switch between light and dark", toggleTheme]]);
document.getElementById("theme").addEventListener("click", toggleTheme);
document.getElementById("help").addEventListener("click", help);
document.getElementById("identity").addEventListener("click", () => signIn(""));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be that of a page
  main.focus();
});
document.addEventListener("identity-changed", showIdentity);
document.addEventListener("token-needed", requestToken);
addEventListener("hashchange", route);
route();
