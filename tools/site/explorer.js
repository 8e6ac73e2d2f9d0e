"use strict";
// The data come packed; the address keeps the view: explorer.html#paper=itvreg&table=table3&scale=small&...
const PAPERS = {itvreg: "A: ITVReg", arr: "B: ARR", scan: "C: SCAN"};
const SCALES = {small: "real data, small encoders", planted: "synthetic data", paper: "the paper's setting"};
const CHOSEN = ["paper", "table", "scale", "encoder", "metric"];
const DEFAULT = {view: "results", paper: "itvreg", table: "table3", scale: "small"};
const form = document.getElementById("view");
const place = (id) => document.getElementById(id);
const NOTHING = "nothing"; // what is taken off where values are shown
const VIEWS = ["results", "grid", "claims"];
const UNTRAINED = "Base"; // what a grid takes off where differences from it have intervals, and nothing else is asked for
const STRONGEST = {percent: 12, fraction: .12}; // from here on all colors are the same
let data, cells, numbers, claims, compared;

async function unpacked() {
  const bytes = Uint8Array.from(atob(window.PACKED), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function rounded(number, unit) {
  return number === null ? null : +number.toFixed(unit === "fraction" ? 4 : 2);
}

// Of each cell, by its place: the differences from other methods that have an interval.
function comparedOf(columns) {
  const found = new Map();
  columns.cell.forEach((place, i) => {
    if (!found.has(place)) found.set(place, {});
    found.get(place)[columns.against[i]] = {value: columns.difference[i], low: columns.low[i], high: columns.high[i], n: columns.n[i]};
  });
  return found;
}

// The rows as differences from a method on the same test.
function minus(rows, base) {
  const values = Object.fromEntries(rows.filter((row) => row.method === base).map((row) => [row.column, row.value]));
  return rows.filter((row) => row.method !== base && row.column in values).map((row) => {
    const known = (compared.get(row.place) || {})[base] || {value: row.value - values[row.column], low: null, high: null, n: row.n};
    const numbers = Object.fromEntries(["value", "low", "high"].map((name) => [name, rounded(known[name], row.unit)]));
    return {...row, ...numbers, n: known.n, std: null, minus: base};
  });
}

// What is taken off if nothing else is asked for: the method that most differences with an interval are from; of a grid the base encoder first.
function takenOff(rows, methods, isGrid) {
  const against = rows.flatMap((row) => Object.keys(compared.get(row.place) || {})).filter((one) => methods.includes(one));
  if (isGrid && (against.includes(UNTRAINED) || !against.length)) return methods.includes(UNTRAINED) ? UNTRAINED : methods[0];
  if (!against.length) return NOTHING;
  return d3.greatest(d3.rollups(against, (own) => own.length, (one) => one), ([, count]) => count)[0];
}

function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns.value.map((_, i) => {
    const row = {place: i};
    for (const name of names) row[name] = columns[name][i];
    for (const name of ["value", "std", "low", "high"]) row[name] = rounded(row[name], row.unit);
    row.scale = row.profile;
    return row;
  });
}

function label(name, value, paper) { // paper: of a table
  if (name === "table") return data.tables[paper][value];
  if (name === "paper") return PAPERS[value] || value;
  if (name === "scale") return SCALES[value] || value;
  if (name === "metric") return value.replace(/^\w+/, (key) => data.metrics[key] || key); // of a part as well, p1[group 1]
  return value || "none (no encoder)";
}

function order(paper, table) {
  return Object.keys(data.tables[paper]).indexOf(table);
}

function inAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// Fill the selectors from left to right; what the address asks for and nothing has is said, and replaced by the default.
function choose(asked, fromAddress) {
  const unknown = [];
  const view = VIEWS.includes(asked.view) ? asked.view : DEFAULT.view;
  if (asked.view && asked.view !== view) unknown.push(`view ${asked.view}`);
  for (const name of Object.keys(asked)) if (!["view", "minus"].includes(name) && !CHOSEN.includes(name)) unknown.push(`${name} ${asked[name]}`);
  form.elements.view.value = view;
  let left = cells;
  for (const name of CHOSEN) {
    const known = [...new Set(left.map((cell) => cell[name]))];
    if (name === "table") known.sort((one, other) => order(left[0].paper, one) - order(left[0].paper, other));
    const wanted = asked[name] ?? DEFAULT[name];
    if (asked[name] !== undefined && !known.includes(asked[name])) unknown.push(`${name} ${asked[name]}`);
    const value = known.includes(wanted) ? wanted : known.includes(DEFAULT[name]) ? DEFAULT[name] : known[0];
    const select = form.elements[name];
    select.replaceChildren(...known.map((one) => new Option(label(name, one, left[0].paper), one, false, one === value)));
    left = left.filter((cell) => cell[name] === value);
  }
  const methods = [...new Set(left.map((cell) => cell.method))];
  if (asked.minus && ![NOTHING, ...methods].includes(asked.minus)) unknown.push(`minus ${asked.minus}`);
  const isValues = asked.minus === NOTHING && view !== "grid";
  const base = isValues || methods.includes(asked.minus) ? asked.minus : takenOff(left, methods, view === "grid");
  form.elements.minus.replaceChildren(...[NOTHING, ...methods].map((one) => new Option(one, one, false, one === base)));
  place("said").textContent = fromAddress && unknown.length ? `Unknown in this link: ${unknown.join(", ")}. The default is shown instead.` : "";
  return base === NOTHING ? left : minus(left, base);
}

function shownView() {
  const view = {view: form.elements.view.value, minus: form.elements.minus.value};
  for (const name of CHOSEN) view[name] = form.elements[name].value;
  return view;
}

// What the numbers of a row measure.
function named(row) {
  const metric = label("metric", row.metric);
  if (row.minus) return `${metric} − ${row.minus}${row.unit === "percent" ? " (points)" : ""}`;
  return `${metric}${row.unit === "percent" ? " (%)" : ""}`;
}

function widthOf(most) {
  return Math.max(340, Math.min(most, place("picture").clientWidth || 900));
}

// A picture is read as one: without Plot's names of its marks. What is clicked is told below it.
function placed(picture, said, marks, rows) {
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `${said}; the table below has the same numbers`);
  d3.select(picture).selectAll(marks).on("click", (_, i) => tell(rows[i])); // Plot binds each to its place
  d3.select(picture).selectAll("g").attr("aria-label", null);
  place("picture").replaceChildren(picture);
}

function toldOf(row) {
  return `${row.method}, ${row.column}: ${row.value}${row.low === null ? "" : ` [${row.low}, ${row.high}]`}, n = ${row.n}`;
}

// A square a test and method: a color for the difference, a number where its interval leaves out 0.
function drawGrid(rows) {
  const columns = [...new Set(rows.map((row) => row.column))];
  const methods = [...new Set(rows.map((row) => row.method))];
  const isSure = (row) => row.low !== null && (row.low > 0 || row.high < 0);
  const strongest = STRONGEST[rows[0].unit] || d3.max(rows, (row) => Math.abs(row.value));
  const picture = Plot.plot({
    width: widthOf(320 + 66 * methods.length), height: 170 + 20 * columns.length,
    marginLeft: 200, marginTop: 140, marginRight: 100, marginBottom: 12, padding: .04,
    x: {domain: methods, label: null, axis: "top", tickRotate: -40}, y: {domain: columns, label: null},
    color: {type: "diverging", scheme: "PuOr", reverse: true, domain: [-strongest, strongest], clamp: true},
    marks: [
      Plot.cell(rows, {x: "method", y: "column", fill: "value", fillOpacity: (row) => isSure(row) ? 1 : .35, title: toldOf}),
      Plot.text(rows.filter(isSure), {
        x: "method", y: "column", text: (row) => d3.format(row.unit === "fraction" ? "+.3f" : "+.1f")(row.value), pointerEvents: "none",
        fill: (row) => Math.abs(row.value) > .6 * strongest ? "white" : "black"}),
    ],
  });
  placed(picture, `${rows.length} squares by method and test`, "rect", rows);
}

function draw(rows) {
  const columns = [...new Set(rows.map((row) => row.column))];
  const methods = [...new Set(rows.map((row) => row.method))];
  const longest = Math.max(...methods.map((one) => one.length));
  const wide = document.documentElement.clientWidth > 700;
  const ranged = rows.filter((row) => row.low !== null);
  const picture = Plot.plot({
    width: widthOf(1100),
    height: 60 + columns.length * (26 + 17 * methods.length),
    marginLeft: Math.min(wide ? 240 : 130, 20 + 6.6 * longest), marginRight: 12, marginTop: 30, marginBottom: 45,
    x: {label: named(rows[0]), grid: true, nice: true, labelAnchor: "center", labelOffset: 36},
    y: {domain: methods, label: null}, fy: {domain: columns, label: null, axis: null},
    marks: [
      Plot.frame({stroke: "currentColor", strokeOpacity: .25}),
      ...(rows[0].minus ? [Plot.ruleX([0], {stroke: "currentColor"})] : []),
      Plot.text(columns, {fy: (one) => one, text: (one) => one, frameAnchor: "top-left", dy: -13, dx: 2, fontWeight: 600}),
      Plot.link(ranged, {x1: "low", x2: "high", y1: "method", y2: "method", fy: "column", stroke: "var(--mark)", strokeWidth: 2}),
      Plot.dot(rows, {
        x: "value", y: "method", fy: "column", r: 5, fill: "var(--mark)", title: toldOf}),
    ],
  });
  placed(picture, `${rows.length} points by method and test`, "circle", rows);
}

function element(tag, text, children = []) {
  const one = document.createElement(tag);
  if (text) one.textContent = text;
  one.append(...children);
  return one;
}

function tell(row) {
  const runs = row.runs.map((run) => data.runs[run]);
  const commits = row.commits.map((commit) => data.commits[commit]);
  const list = [
    [row.minus ? `Difference from ${row.minus}` : "Value", `${row.value}${row.low === null ? "" : `, 95% confidence interval ${row.low} to ${row.high}`}; n = ${row.n}`],
    ["Where", `${label("paper", row.paper)}, ${label("table", row.table, row.paper)}, ${label("scale", row.scale)}, ${label("encoder", row.encoder)}, ${row.method}, ${row.column} (${row.shift === "iid" ? "in distribution" : "out of distribution"})`],
    ["Command that makes it again", row.command], [commits.length > 1 ? "Commits" : "Commit", commits.join(", ")],
    [`Runs (${runs.length})`, runs.join(" ")],
  ];
  const terms = list.flatMap(([name, said]) => [element("dt", name), element("dd", said)]);
  const settings = element("details", "", [element("summary", "Configuration of the first run"), element("pre", JSON.stringify(JSON.parse(data.settings[row.settings]), null, 1))]);
  const heading = element("h2", `${row.method}, ${row.column}`);
  place("details").replaceChildren(heading, element("dl", "", terms), settings);
}

// A column that an input in its head filters.
function filtered(title, field, more) {
  return {title, field, headerFilter: "input", headerFilterParams: {elementAttributes: {"aria-label": `Filter by ${title}`}}, ...more};
}

// The rows hold what the keyboard reaches, hence not what scrolls them.
function table(id, settings) {
  const made = new Tabulator(id, settings);
  made.on("tableBuilt", () => document.querySelector(`${id} .tabulator-tableholder`).removeAttribute("tabindex"));
  return made;
}

function tabulate(rows) {
  const number = {hozAlign: "right", sorter: "number"};
  const columns = [
    filtered("method", "method", {minWidth: 140, headerSortTristate: true}), filtered("test", "column", {minWidth: 160, headerSortTristate: true}),
    {title: "value", field: "value", ...number},
    {title: "low", field: "low", ...number}, {title: "high", field: "high", ...number}, {title: "sd", field: "std", ...number}, {title: "n", field: "n", ...number},
    {title: "runs", width: 90, headerSort: false, formatter: () => { const button = element("button", "show"); button.type = "button"; return button; }},
  ];
  numbers = table("#numbers", {data: rows, columns, layout: "fitColumns", columnDefaults: {minWidth: 70}, maxHeight: "32rem"});
  numbers.on("rowClick", (_, row) => { tell(row.getData()); place("details").scrollIntoView({block: "nearest"}); });
}

function tabulateClaims() {
  if (claims) return;
  const long = {formatter: "textarea"};
  claims = table("#claimed", {
    data: data.claims, layout: "fitColumns", maxHeight: "44rem", columnDefaults: {minWidth: 110},
    columns: [
      filtered("id", "id", {width: 90, formatter: "link", formatterParams: {urlField: "page"}}),
      filtered("claim", "claim", {widthGrow: 3, minWidth: 220, ...long}), filtered("reported", "reported", long),
      filtered("on real data", "real", {widthGrow: 2, ...long}), filtered("on synthetic data", "synthetic", {widthGrow: 2, ...long}),
      filtered("our real data", "answer", long),
    ],
  });
}

function show(asked, fromAddress) {
  const rows = choose(asked, fromAddress);
  const isClaims = form.elements.view.value === "claims";
  place("claims").hidden = !isClaims;
  place("results").hidden = isClaims;
  for (const name of [...CHOSEN, "minus"]) form.elements[name].disabled = isClaims;
  if (isClaims) return tabulateClaims();
  place("details").replaceChildren();
  if (!rows.length) {
    place("said").textContent = "Nothing else was measured where this method was: choose another one to take off.";
    place("picture").replaceChildren();
    return tabulate(rows);
  }
  const page = rows[0].page;
  const link = element("a", "The page of this table");
  link.href = `reports/${page}.html`;
  place("source").replaceChildren(...(page ? [link] : []));
  (form.elements.view.value === "grid" ? drawGrid : draw)(rows);
  tabulate(rows);
}

form.addEventListener("change", () => {
  show(shownView(), false); // what no longer fits is chosen again
  history.replaceState(null, "", `#${new URLSearchParams(shownView())}`);
});
window.addEventListener("hashchange", () => show(inAddress(), true));
unpacked().then((all) => { data = all; compared = comparedOf(all.differences); cells = rowsOf(all.cells); show(inAddress(), true); document.body.dataset.ready = "yes"; });
