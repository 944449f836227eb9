// Sparklines: small bar charts of a value over time, with the numbers in their accessible name.

import { svg } from "./dom.js";

const BAR_PX = 9, GAP_PX = 2, LEAST_PX = 2, NONE_PX = 1;

/** Return bars for points {name, value}, the oldest first; `most` is the value of a full bar. A value of 0 is a line, null a gap. */
export function sparkline(points, { label, most, height }) {
  const width = points.length * (BAR_PX + GAP_PX) - GAP_PX;
  return svg("svg", { class: "sparkline", width, height, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    points.map(({ name, value }, index) => {
      if (value === null) return null;
      const tall = value ? Math.max(LEAST_PX, (value / most) * height) : NONE_PX;
      return svg("rect", { x: index * (BAR_PX + GAP_PX), y: height - tall, width: BAR_PX, height: tall, class: value ? "" : "none" }, svg("title", {}, name));
    }));
}
