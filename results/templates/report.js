"use strict";
// Everything here adds to a page that can be read without it.
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip"), spoken = document.getElementById("spoken"), runs = document.getElementById("runs");
const shown = value => value === null ? "–" : data.kind === "accuracy" ? (value / 10).toFixed(1) + "%" : (value / 1000).toFixed(3);
const place = cell => data.names.map((name, i) => name && cell.at[i] !== null ? name + " " + cell.at[i] : "").filter(Boolean).join(", ");

function element(name, attributes = {}, text = "") {
  const svg = ["svg", "path", "line", "text", "g", "circle"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function summary(cell) {
  const [ok, diverged, failed, missing, planned] = cell.counts;
  const counts = [[ok, "ok"], [diverged, "diverged"], [failed, "failed"], [missing, "not run"]];
  const mean = cell.mean === null ? "no mean" : "mean " + shown(cell.mean) + (cell.sd === null ? "" : ", sd " + shown(cell.sd));
  return mean + "; " + counts.filter(([n]) => n).map(([n, word]) => n + " " + word).join(", ") + " of " + planned;
}

// Heatmaps: a field over each picture takes the pointer and the keyboard.
for (const figure of document.querySelectorAll("figure.panel")) {
  const panel = data.panels[figure.dataset.panel], model = data.models[panel.model];
  const at = new Map(panel.cells.map(([column, row, number]) => [column + " " + row, number]));
  const [left, top, width, height] = panel.box.map(share => 100 * share + "%");
  const field = element("div", {class: "field", tabindex: "0", role: "group", "aria-label":
    "Cells of " + model + ": arrow keys move, Enter shows the runs of a cell"});
  Object.assign(field.style, {left, top, width, height});
  const mark = element("div", {class: "mark", hidden: ""});
  field.append(mark);
  figure.querySelector(".picture").append(field);
  let here = null, last = null;

  const between = (edges, share) => {
    for (let i = 0; i + 1 < edges.length; i++)
      if ((share - edges[i]) * (share - edges[i + 1]) <= 0) return i;
    return -1;
  };
  const show = (column, row, speak) => {
    const number = at.get(column + " " + row);
    here = number === undefined ? null : {column, row, number};
    last = here ?? last;
    mark.hidden = tip.hidden = here === null;
    if (!here) return;
    const cell = data.cells[number], [x0, x1] = [panel.x[column], panel.x[column + 1]];
    const [y0, y1] = [panel.y[row], panel.y[row + 1]].sort((a, b) => a - b);
    Object.assign(mark.style, {left: 100 * x0 + "%", top: 100 * y0 + "%", width: 100 * (x1 - x0) + "%", height: 100 * (y1 - y0) + "%"});
    tip.replaceChildren(element("b", {}, model + (place(cell) ? ": " + place(cell) : "")), element("span", {}, summary(cell)));
    const box = field.getBoundingClientRect(), x = box.left + x1 * box.width + 12, y = box.top + y0 * box.height;
    tip.style.left = Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(y, innerHeight - tip.offsetHeight - 8)) + "px";
    if (speak) spoken.textContent = model + ", " + place(cell) + ": " + summary(cell);
  };
  const hide = () => { mark.hidden = tip.hidden = true; here = null; };
  const point = event => {
    const box = field.getBoundingClientRect();
    show(between(panel.x, (event.clientX - box.left) / box.width), between(panel.y, (event.clientY - box.top) / box.height));
  };
  field.addEventListener("pointermove", point);
  field.addEventListener("pointerleave", hide);
  field.addEventListener("blur", hide);
  field.addEventListener("focus", () => {
    if (here || !field.matches(":focus-visible")) return;
    if (last) show(last.column, last.row, true); else step(0, 0);
  });
  field.addEventListener("click", event => { point(event); if (here) showRuns(panel.model, data.cells[here.number], field); });
  const step = (dx, dy) => {
    const columns = panel.x.length - 1, rows = panel.y.length - 1;
    let column = here ? here.column : 0, row = here ? here.row : rows - 1;
    for (let tries = 0; tries < columns * rows + 1; tries++) {
      if (here || tries) { column += dx; row += dy; }
      if (column < 0 || row < 0 || column >= columns || row >= rows) return;
      if (at.has(column + " " + row)) return show(column, row, true);
      if (!dx && !dy) dx = 1;
    }
  };
  field.addEventListener("keydown", event => {
    const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};
    if (moves[event.key]) step(...moves[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && here) showRuns(panel.model, data.cells[here.number], field);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
}

// The runs of a cell: a line each, and a table.
function showRuns(model, cell, from) {
  const title = data.models[model] + (place(cell) ? ": " + place(cell) : "");
  const close = element("button", {type: "button", class: "close", "aria-label": "close"}, "×");
  const table = element("table"), body = element("tbody"), head = element("tr");
  for (const word of ["run", "status", data.metric]) head.append(element("th", {scope: "col"}, word));
  table.append(element("thead"), body);
  table.tHead.append(head);
  cell.runs.forEach(([label, status, value], i) => {
    const row = element("tr"), name = element("td");
    name.append(element("span", {class: "swatch", style: "background:" + data.colours[i % data.colours.length]}), label || "the run");
    row.append(name, element("td", {}, status === "oom" ? "out of memory" : status), element("td", {class: "right"}, shown(value)));
    body.append(row);
  });
  runs.replaceChildren(close, element("h3", {}, title), element("p", {class: "soft"}, summary(cell)), chart(cell), table);
  close.addEventListener("click", () => { runs.close(); from.focus({preventScroll: true}); });
  if (!runs.open) runs.show();
  close.focus({preventScroll: true});
}
document.addEventListener("keydown", event => { if (event.key === "Escape" && runs.open) runs.querySelector(".close").click(); });

function chart(cell) {
  const [width, height, left, bottom] = [360, 190, 40, 24], curves = cell.runs.map(run => run[3]);
  const svg = element("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Learning curves of the cell's runs, numbers in the table"});
  const values = curves.flat().filter(value => value !== null);
  if (!values.length) return element("p", {class: "soft"}, "No learning curves of this cell.");
  const most = data.kind === "accuracy" ? 1000 : Math.max(...values), last = data.epochs[data.epochs.length - 1];
  const first = data.epochs[0], x = epoch => left + (width - left - 10) * (last === first ? .5 : (epoch - first) / (last - first));
  const y = value => 8 + (height - bottom - 8) * (1 - value / most);
  for (let i = 0; i <= 4; i++) {
    const value = most * i / 4;
    svg.append(element("line", {x1: left, x2: width - 10, y1: y(value), y2: y(value), class: "grid"}));
    svg.append(element("text", {x: left - 5, y: y(value) + 3, "text-anchor": "end"}, data.kind === "accuracy" ? value / 10 + "%" : (value / 1000).toFixed(2)));
  }
  for (const epoch of new Set([first, last])) svg.append(element("text", {x: x(epoch), y: height - 8, "text-anchor": "middle"}, (epoch === first ? "epoch " : "") + epoch));
  curves.forEach((curve, i) => {
    const points = curve.map((value, e) => value === null ? null : [x(data.epochs[e]), y(value)]);
    const path = points.map((point, e) => point ? (e && points[e - 1] ? "L" : "M") + point.map(n => n.toFixed(1)).join(" ") : "").join("");
    const colour = data.colours[i % data.colours.length];
    svg.append(element("path", {d: path, fill: "none", stroke: colour, "stroke-width": 1.6, "stroke-dasharray": ["", "6 2", "1.5 2"][Math.floor(i / data.colours.length) % 3]}));
    const end = points[points.length - 1];
    if (end) svg.append(element("circle", {cx: end[0], cy: end[1], r: 2.2, fill: colour}));
  });
  return svg;
}

// Models on and off: heatmaps, lines and rows; what compares models in one picture stays.
const switches = document.getElementById("models");
if (data.models && data.models.length > 1) {
  data.models.forEach((model, number) => {
    const label = element("label"), box = element("input", {type: "checkbox", checked: "", value: number});
    label.append(box, model);
    switches.append(label);
    box.addEventListener("change", () => {
      for (const part of document.querySelectorAll(`[data-model="${number}"], [data-other="${number}"]`)) {
        const of = [part.dataset.model, part.dataset.other].filter(Boolean);
        part.style.display = of.every(each => switches.querySelector(`input[value="${each}"]`).checked) ? "" : "none";
      }
      if (runs.open && !box.checked) runs.close();
    });
  });
  switches.hidden = false;
}
for (const hint of document.querySelectorAll(".hint")) hint.hidden = false;
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });

// Tables that sort by a click on a column's head.
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = element("button", {type: "button"});
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      const number = text => text === "" || text === "–" ? NaN : Number(text.replace(/[,%+<]/g, "").replace("−", "-").split(" ").filter(Boolean)[0]);
      const rows = [...table.tBodies[0].rows], numeric = rows.some(row => !Number.isNaN(number(key(row))));
      rows.sort((a, b) => {
        const [one, two] = [key(a), key(b)], [m, n] = [number(one), number(two)];
        if (!numeric) return (down ? -1 : 1) * one.localeCompare(two);
        if (Number.isNaN(m) || Number.isNaN(n)) return Number.isNaN(m) - Number.isNaN(n);
        return (down ? -1 : 1) * (m - n);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
