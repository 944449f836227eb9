// Selection of a time on a chart, by dragging or with arrow keys.

const STEPS = 24, CLICK_PX = 4;

/**
 * Let the user select a time on an element. `view` returns what the chart shows as {from, to, left, width}: times in ms, and the place of the time axis in px.
 * `draw` is called whenever the selection changes, `choose` once the user has made it; both receive {from, to}, or null for none.
 */
export function brush(element, view, draw, choose) {
  let selected = null;
  let begun = null;

  function set(next) {
    selected = next;
    draw(selected);
  }

  function timeAt(event) {
    const { from, to, left, width } = view();
    const share = (event.clientX - element.getBoundingClientRect().left - left) / width;
    return from + (to - from) * Math.min(Math.max(share, 0), 1);
  }

  const between = (one, other) => ({ from: Math.min(one, other), to: Math.max(one, other) });

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    begun = { x: event.clientX, at: timeAt(event), before: selected };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => begun && set(between(begun.at, timeAt(event))));
  element.addEventListener("pointerup", (event) => {
    if (!begun) return;
    set(Math.abs(event.clientX - begun.x) < CLICK_PX ? null : between(begun.at, timeAt(event)));
    begun = null;
    choose(selected);
  });
  element.addEventListener("pointercancel", () => {
    if (begun) set(begun.before);
    begun = null;
  });
  element.addEventListener("keydown", (event) => {
    if (!(event.key in MOVES) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    set(moved(selected, MOVES[event.key], view()));
    choose(selected);
  });

  return { clear() { begun = null; set(null); choose(null); } };
}

/** By key: how many steps the start and the end of the selection move. */
const MOVES = { ArrowLeft: [-1, -1], ArrowRight: [1, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** Return the selection after a move, within what the chart shows and at least one step long; the first key selects the last step. */
function moved(selected, [start, end], { from, to }) {
  const step = (to - from) / STEPS;
  if (!selected) return { from: to - step, to };
  const next = { from: selected.from + start * step, to: selected.to + end * step };
  const isInside = next.from >= from - step / 2 && next.to <= to + step / 2 && next.to - next.from >= step / 2;
  return isInside ? { from: Math.max(next.from, from), to: Math.min(next.to, to) } : selected;
}
