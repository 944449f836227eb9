// Polling: loads a page’s data periodically, except while the tab is hidden. Compared with a stream, any node behind a
// load balancer can answer, and an open tab holds no connection.

import { replaceContent } from "./dom.js";
import { clock } from "./format.js";

const RETRY_MS = 5_000;
const READINESS_TIMEOUT_MS = 15_000;
const pollers = new Set();

/** Wait for all promises, and raise the first error only then: what failed does not hide what was loaded. */
export async function allOf(...loads) {
  const failed = (await Promise.allSettled(loads)).find(({ status }) => status === "rejected");
  if (failed) throw failed.reason;
}

/** Call `load` every `everyMs` until stopped; an error is shown at the top of the page until `load` succeeds, and polling continues, soon if the node was not reached. */
export function poll(load, everyMs) {
  const poller = { load, everyMs, timer: 0, isBusy: false, isAgain: false, problem: null };
  pollers.add(poller);
  const soon = () => runPoller(poller);
  soon();
  return {
    now: soon,
    stop() {
      pollers.delete(poller);
      clearTimeout(poller.timer);
      if (!pollers.size) showStatus("", "");
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
    await checkMirror();
    poller.problem = null;
  } catch (error) {
    poller.problem = error;
  }
  if (pollers.has(poller)) showProblem([...pollers].find((each) => each.problem));
  poller.isBusy = false;
  next(poller);
}

/** Raise an error in a mirror that cannot read its cluster, or may not: what it shows is from before. */
async function checkMirror() {
  if (!document.getElementById("mirror")) return;
  const response = await fetch("/readyz", { signal: AbortSignal.timeout(READINESS_TIMEOUT_MS) }).catch(() => null);
  if (!response) throw new Error("The node did not say whether the mirror is current.");
  if (response.status === 503) throw new Error(`Not current: ${(await response.json()).reasons.join("; ")}`);
}

function next(poller) {
  if (!pollers.has(poller)) return;
  const isAgain = poller.isAgain;
  poller.isAgain = false;
  if (isAgain) void runPoller(poller);
  else if (!document.hidden) poller.timer = setTimeout(() => runPoller(poller), Math.min(poller.everyMs, poller.problem?.status === 0 ? RETRY_MS : Infinity));
}

function showProblem(broken) {
  if (broken) showStatus("broken", broken.problem.message);
  else showStatus("live", `Live, ${clock(new Date())}`);
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
  if (document.hidden && pollers.size) showStatus("paused", "Paused");
});
