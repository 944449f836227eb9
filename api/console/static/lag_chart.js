// Lag over the last hour, drawn by Plotly, which is loaded from this node when there is data to draw.

import { h, replaceContent } from "./dom.js";

const SHOWN_PX = 220, MINUTE_MS = 60_000;
const UNITS = [["days", 86_400], ["hours", 3_600], ["minutes", 60], ["seconds", 1]];
let loading;

/** Return a function that draws points {at, lag, lag_seconds} into an element. */
export function lagChart(element) {
  let points = [];
  let isStopped = false;
  const plot = h("div", { role: "img", "aria-label": "Lag over the last hour" });
  const draw = async (given) => {
    const known = given.filter((each) => each.lag !== null);
    points = given.slice(given.indexOf(known[0]));
    if (known.length < 2) {
      replaceContent(element, h("p", { class: "muted" }, "No lag history yet. It appears after clients have reported log end offsets for a few minutes."));
      return;
    }
    if (!plot.isConnected) replaceContent(element, plot);
    const plotly = await load();
    if (isStopped) return;
    const isEstimated = points.some((each) => each.is_log_end_stale) ? "; estimated while log ends were not reported" : "";
    plot.setAttribute("aria-label", `Lag over the last hour: ${points[0].lag} records at the start, ${points.at(-1).lag ?? "not known"} now${isEstimated}`);
    const unit = unitOf(points);
    await plotly.react(plot, traces(points, unit), { ...layout(unit), shapes: bands(points) }, { displayModeBar: false, responsive: true });
  };
  const again = () => void draw(points);
  document.addEventListener("theme-changed", again);
  draw.stop = () => {
    isStopped = true;
    document.removeEventListener("theme-changed", again);
    if (globalThis.Plotly && plot.isConnected) globalThis.Plotly.purge(plot);
  };
  return draw;
}

function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = h("script", { src: new URL("plotly.js", import.meta.url).pathname });
    script.addEventListener("load", () => resolve(globalThis.Plotly));
    script.addEventListener("error", () => {
      loading = undefined;
      script.remove();
      reject(new Error("The chart’s script could not be loaded."));
    });
    document.head.append(script);
  });
  return loading;
}

/** Return the largest unit of time of which the longest time lag has at least two. */
function unitOf(points) {
  const longest = Math.max(...points.map((each) => each.lag_seconds ?? 0));
  return UNITS.find(([, seconds]) => longest >= 2 * seconds) ?? UNITS.at(-1);
}

/** Return a function that writes the time of a point for Plotly, which knows no time zones: by the present difference from UTC, or else the line would go back where summer time ends. */
function localTime(points) {
  const behindMs = new Date(points.at(-1).at).getTimezoneOffset() * MINUTE_MS;
  return ({ at }) => new Date(Date.parse(at) - behindMs).toISOString().slice(0, -1);
}

function traces(points, [unit, length]) {
  const x = points.map(localTime(points));
  const timeLag = points.map((each) => (each.lag_seconds === null ? null : Math.round((10 * each.lag_seconds) / length) / 10));
  return [
    { x, y: points.map((each) => each.lag && Number(each.lag)), name: "records", type: "scatter", mode: "lines", line: { color: colour("--accent"), width: 2, shape: "hv" } },
    { x, y: timeLag, name: unit, yaxis: "y2", type: "scatter", mode: "lines", line: { color: colour("--muted"), width: 1.5, dash: "dot", shape: "hv" } },
  ];
}

/** Return a band for each stretch of time in which log ends were not reported. */
function bands(points) {
  const stretches = [];
  const local = localTime(points);
  for (const [place, each] of points.slice(0, -1).entries()) {
    if (!each.is_log_end_stale) continue;
    if (!points[place - 1]?.is_log_end_stale) stretches.push({ x0: local(each) });
    stretches.at(-1).x1 = local(points[place + 1]);
  }
  const label = { text: "log ends not reported", font: { color: colour("--muted") } };
  return stretches.map((each) => ({ ...each, type: "rect", yref: "paper", y0: 0, y1: 1, layer: "below", line: { width: 0 }, fillcolor: colour("--line"), opacity: 0.5, label }));
}

function layout([unit]) {
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), rangemode: "tozero", fixedrange: true, nticks: 5, separatethousands: true, tickformat: ",~f" };
  return {
    height: SHOWN_PX, margin: { l: 84, r: 84, t: 24, b: 40 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("--muted") }, hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--text") } },
    legend: { orientation: "h", x: 0, y: 1.15 }, xaxis: { gridcolor: colour("--line"), fixedrange: true },
    yaxis: { ...axis, title: { text: "records" } }, yaxis2: { ...axis, title: { text: unit }, overlaying: "y", side: "right", showgrid: false, tickmode: "auto" },
  };
}

/** Return one of the page's colours, resolved for the current theme. */
function colour(name) {
  const probe = h("span", { class: "probe", "--probe": `var(${name})` });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
