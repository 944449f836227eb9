// What a page shows is asked for again and again, and not while nobody looks.
// Polling, not a stream: any node behind a load balancer answers, and no connection is held for a tab left open.

import { swap } from "./dom.js";
import { clock } from "./format.js";

const pollers = new Set();

/** Call `load` now and then until stopped; a failure is told at the top of the page and the next try comes anyway. */
export function poll(load, everyMs) {
  const poller = { load, everyMs, timer: 0, isBusy: false, isAgain: false };
  pollers.add(poller);
  const soon = () => beat(poller);
  soon();
  return {
    now: soon,
    stop() {
      pollers.delete(poller);
      clearTimeout(poller.timer);
    },
  };
}

async function beat(poller) {
  clearTimeout(poller.timer);
  if (poller.isBusy) {
    poller.isAgain = true;
    return;
  }
  poller.isBusy = true;
  try {
    await poller.load();
    if (pollers.has(poller)) tell("live", `Live, ${clock(new Date())}`);
  } catch (error) {
    if (pollers.has(poller)) tell("broken", error.message);
  }
  poller.isBusy = false;
  next(poller);
}

function next(poller) {
  if (!pollers.has(poller)) return;
  const isAgain = poller.isAgain;
  poller.isAgain = false;
  if (isAgain) void beat(poller);
  else if (!document.hidden) poller.timer = setTimeout(() => beat(poller), poller.everyMs);
}

function tell(state, text) {
  const pulse = document.getElementById("pulse");
  pulse.dataset.state = state;
  swap(pulse, text);
}

document.addEventListener("visibilitychange", () => {
  for (const poller of pollers) {
    clearTimeout(poller.timer);
    if (!document.hidden) void beat(poller);
  }
  if (document.hidden) tell("paused", "Paused");
});
