// Polling: loads a page’s data periodically, except while the tab is hidden. Compared with a stream, any node behind a
// load balancer can answer, and an open tab holds no connection.

import { replaceContent } from "./dom.js";
import { clock } from "./format.js";

const pollers = new Set();

/** Call `load` every `everyMs` until stopped; an error is shown at the top of the page and polling continues. */
export function poll(load, everyMs) {
  const poller = { load, everyMs, timer: 0, isBusy: false, isAgain: false };
  pollers.add(poller);
  const soon = () => runPoller(poller);
  soon();
  return {
    now: soon,
    stop() {
      pollers.delete(poller);
      clearTimeout(poller.timer);
    },
  };
}

async function runPoller(poller) {
  clearTimeout(poller.timer);
  if (poller.isBusy) {
    poller.isAgain = true;
    return;
  }
  poller.isBusy = true;
  try {
    await poller.load();
    if (pollers.has(poller)) showStatus("live", `Live, ${clock(new Date())}`);
  } catch (error) {
    if (pollers.has(poller)) showStatus("broken", error.message);
  }
  poller.isBusy = false;
  next(poller);
}

function next(poller) {
  if (!pollers.has(poller)) return;
  const isAgain = poller.isAgain;
  poller.isAgain = false;
  if (isAgain) void runPoller(poller);
  else if (!document.hidden) poller.timer = setTimeout(() => runPoller(poller), poller.everyMs);
}

function showStatus(state, text) {
  const pulse = document.getElementById("poll-status");
  pulse.dataset.state = state;
  replaceContent(pulse, text);
}

document.addEventListener("visibilitychange", () => {
  for (const poller of pollers) {
    clearTimeout(poller.timer);
    if (!document.hidden) void runPoller(poller);
  }
  if (document.hidden) showStatus("paused", "Paused");
});
