// The behaviour of the page of a job: messages change one value, the view, and what has changed is drawn in the next frame. What comes
// from the network is set as text only. Nothing grows with time: points, events and lines have limits, and nodes are used again.
"use strict";

const MAX_POINTS = 2000, MAX_EVENTS = 1000, MAX_LINES = 50, MAX_CURVES = 24;
const SHORT_TABLE = 24;       // rows at first; the rest is one press away
const SMALL_WORLD = 16;       // up to here the table alone shows all ranks, in their order
const SILENCE_S = 30;         // without a message, the connection counts as lost
const MAX_BACKOFF_S = 10, ARMED_S = 8, DOUBLE_PRESS_S = 0.4;

// ---- Text of values ----
const known = (value) => typeof value === "number" && Number.isFinite(value);
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const count = (value) => (known(value) ? grouped.format(value) : "–");
const number = (value) => {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  return value !== 0 && (size < 1e-3 || size >= 1e9) ? value.toExponential(3) : size >= 1e4 ? grouped.format(value) : precise.format(value);
};
const percent = (share) => {
  if (!known(share)) return "–";
  return share > 0 && share < 0.01 ? "< 1 %" : `${(share * 100).toFixed(share > 0.995 && share < 1 ? 1 : 0)} %`;
};
const two = (value) => String(Math.floor(value)).padStart(2, "0");
const duration = (s) => {
  if (!known(s)) return "–";
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
};
const bytes = (value) => {
  if (!known(value)) return "–";
  const power = Math.min(5, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  const scaled = value / 1024 ** power;
  return `${scaled >= 100 || power === 0 ? Math.round(scaled) : scaled.toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
};
const text = (value) => (value === null || value === undefined || value === "" ? "–" : String(value));
// Colours and moves of the cursor that a terminal would execute are left out.
const printable = (line) =>
  String(line).replace(/\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)/g, "").replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
const several = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// ---- Nodes ----
const $ = (id) => document.getElementById(id);
const make = (tag, name, content) => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (content !== undefined) node.textContent = content;
  return node;
};
const draw = (tag, name, parent) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (name) node.setAttribute("class", name);
  if (parent) parent.append(node);
  return node;
};
const put = (node, content) => { if (node.shown !== content) node.textContent = node.shown = content; };
const attribute = (node, name, value) => { if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value); };
const mark = (node, name) => attribute(node, "class", `shape ${name}`);
// Children of a parent for items, by key: nodes stay, are moved, and are filled again only if their item is another one.
const keyed = (parent, items, keyOf, create, fill) => {
  const old = parent.nodes ?? new Map();
  const now = (parent.nodes = new Map());
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    if (now.has(key)) continue;
    const node = old.get(key) ?? create(item);
    old.delete(key);
    now.set(key, node);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
    if (node.item !== item) fill(node, (node.item = item));
  }
  for (const node of old.values()) node.remove();
};
// What screen readers say of a plot: position i (null: the last) of n.
const readAloud = (node, i, n, content) => {
  attribute(node, "aria-valuemin", 0);
  attribute(node, "aria-valuemax", Math.max(0, n - 1));
  attribute(node, "aria-valuenow", i ?? Math.max(0, n - 1));
  attribute(node, "aria-valuetext", content);
};
// Positions in a plot by pointer and keyboard. `plot` has count(), x(i) in pixels, and show(i), where i is null for none.
const cursor = (node, plot) => {
  let at = null;
  const move = (i) => plot.show((at = i));
  node.addEventListener("pointermove", (event) => {
    const x = event.clientX - node.getBoundingClientRect().left;
    let best = null;
    for (let i = 0; i < plot.count(); ++i) if (best === null || Math.abs(plot.x(i) - x) <= Math.abs(plot.x(best) - x)) best = i;
    move(best);
  });
  node.addEventListener("pointerleave", () => move(null));
  node.addEventListener("blur", () => move(null));
  node.addEventListener("keydown", (event) => {
    const last = plot.count() - 1, far = Math.max(1, Math.round(last / 10)), from = at ?? last;
    const to = {
      ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1,
      PageDown: from - far, PageUp: from + far, Home: 0, End: last
    }[event.key];
    if (event.key === "Escape") move(null);
    else if (to === undefined || last < 0) return;
    else move(Math.min(last, Math.max(0, at === null && event.key.startsWith("Arrow") ? last : to)));
    event.preventDefault();
  });
  return { again: () => { if (at !== null) plot.show(at < plot.count() ? at : (at = null)); } };
};

// ---- The view, and what messages do to it ----
const data = $("data");   // of a job that has ended: its page opens no connection
const view = { job: {}, progress: {}, goodput: {}, ranks: new Map(), curves: new Map(), events: [], lines: new Map() };
let received = performance.now();   // of the last job.now
let lastMessage = received;
let chosen = null;                  // the rank whose details are shown
let live = null;                    // the connection, once it is open
const ended = () => view.job.state === "ended";
const left = () => ended() && !known(view.job.exit_code);   // only the page has ended: the job goes on
const elapsed = () => (known(view.job.now) ? view.job.now + (ended() || !live ? 0 : (performance.now() - received) / 1000) : null);
const dirty = new Set();
let frame = null;
const show = (...parts) => {
  for (const part of parts) dirty.add(part);
  frame ??= requestAnimationFrame(() => {
    frame = null;
    const todo = [...dirty];
    dirty.clear();
    for (const part of todo) part();
  });
};

// Every second point is left out where there are too many; the last one stays.
const thin = (points) => (points.length > MAX_POINTS ? thin(points.filter((_, i) => (points.length - 1 - i) % 2 === 0)) : points);
const stepOf = (event) => (known(event.step) ? event.step : Number(/\bstep (\d+)/.exec(event.text ?? "")?.[1] ?? NaN));
const generationOf = (event) => /\bgeneration (\d+)/.exec(event.text ?? "")?.[1] ?? "";
const apply = (message) => {
  const whole = message.type === "job";
  if (whole) {
    view.ranks.clear(); view.curves.clear(); view.events = []; view.progress = {}; view.goodput = {};
    for (const [rank, lines] of Object.entries(message.lines ?? {})) view.lines.set(Number(rank), lines);
  }
  if (message.job) { view.job = message.job; received = performance.now(); }
  if (message.progress) view.progress = message.progress;
  if (message.goodput) view.goodput = message.goodput;
  for (const row of message.ranks ?? []) if (known(row.rank)) view.ranks.set(row.rank, row);
  for (const [name, points] of Object.entries(message.curves ?? {})) {
    if (!view.curves.has(name) && view.curves.size >= MAX_CURVES) continue;
    const all = view.curves.get(name) ?? [];
    for (const point of points) all.push(point);
    view.curves.set(name, thin(all));
  }
  for (const event of message.events ?? []) {
    event.onStep = stepOf(event);
    if (!whole && Number.isNaN(event.onStep)) event.onStep = view.progress.step ?? NaN;
    view.events.push(event);
  }
  // As the server does: saves and evaluations, which may be many, go first.
  const routine = (event) => event.kind === "save" || event.kind === "evaluation";
  while (view.events.length > MAX_EVENTS) view.events.splice(Math.max(0, view.events.findIndex(routine)), 1);
  if (whole || message.job) show(drawHead);
  if (whole || message.progress || message.job) show(drawProgress);
  if (whole || message.goodput) show(drawGoodput);
  if (whole || message.curves || message.events) show(drawCurves);
  if (whole || message.ranks) show(drawRanks, drawDetails);
  if (whole || message.events || message.job) show(drawEvents);
  show(drawAnswers);
  if (chosen !== null && !view.ranks.has(chosen)) choose(null);
};

// ---- Head and progress ----
const drawHead = () => {
  const job = view.job, failed = known(job.exit_code) && job.exit_code !== 0;
  put($("name"), text(job.name));
  put($("program"), text(job.program));
  $("program").title = text(job.program);
  put($("state"), left() ? "not watched" : ended() ? (failed ? "failed" : "ended") : text(job.state));
  attribute($("state"), "class", `badge ${left() ? "" : ended() ? (failed ? "bad" : "good") : text(job.state)}`);
  put($("place"), `${several(job.world, "rank")} on ${several(job.hosts, "host")}`);
  put($("version"), job.version ? `Lockstep ${job.version}` : "");
  const notes = job.notes ?? [];
  $("notes").hidden = notes.length === 0;
  keyed($("notes"), notes, (note) => note, (note) => make("li", "", note), () => {});
  $("ending").hidden = !ended();
  if (ended()) {
    attribute($("ending"), "class", `banner ${left() ? "" : failed ? "bad" : "good"}`);
    put($("ending"), left() ? `This page has ended after ${duration(job.now)}: ${text(job.end)}`
      : `The job has ended after ${duration(job.now)}, exit code ${text(job.exit_code)}: ${text(job.end)}`);
  }
  drawTime();
};
const drawTime = () => {
  const started = known(view.job.started) ? `, started ${new Date(view.job.started * 1000).toLocaleString()}` : "";
  put($("elapsed"), `${ended() ? "Took" : "For"} ${duration(elapsed())}${started}`);
};
const drawProgress = () => {
  const { step, steps, epoch, samples_per_s, seconds_left } = view.progress;
  const share = known(step) && known(steps) && steps > 0 ? Math.min(1, step / steps) : null;
  $("bar-done").style.width = `${(share ?? 0) * 100}%`;
  if (share === null) $("bar").removeAttribute("aria-valuenow");
  else attribute($("bar"), "aria-valuenow", Math.floor(share * 100));
  put($("step"), known(steps) ? `${count(step)} of ${count(steps)}` : count(step));
  put($("epoch"), count(epoch));
  put($("rate"), number(samples_per_s));
  put($("left"), ended() ? "ended" : duration(seconds_left));
  document.title = `${left() ? "not watched" : ended() ? "ended" : share === null ? text(view.job.state) : percent(share)} · ${text(view.job.name)}`;
};

// ---- The four answers ----
const answer = (name, shape, content) => { mark($(`${name}-mark`), shape); put($(name), content); };
const drawAnswers = () => {
  const job = view.job, { step, stands, why, samples_per_s } = view.progress;
  const ranks = [...view.ranks.values()], where = known(step) ? `step ${count(step)}` : "no step yet";
  const failed = known(job.exit_code) && job.exit_code !== 0, lostNow = ranks.filter((row) => stateOf(row) === "lost");
  if (left()) answer("moving", "none", `Not known since this page ended, at ${where}.`);
  else if (ended()) answer("moving", failed ? "bad" : "good", `It has ended at ${where}.`);
  else if (!live) answer("moving", "warn", `Not known without a connection. The last message said: ${where}.`);
  else if (job.state === "starting") answer("moving", "none", "It is starting.");
  else if (known(stands)) {
    const what = known(step) ? "step" : "collective";
    answer("moving", "warn", `No new ${what} for ${duration(stands)}, at ${where}.${why ? ` ${why}.` : ""}`);
  } else answer("moving", "good", known(step) ? `Yes: ${where}, ${number(samples_per_s)} samples/s.` : "It runs, and reports no steps.");

  const slow = ranks.filter((row) => row.straggler);
  answer("slow", slow.length ? "warn" : "good",
    slow.length ? `${several(slow.length, "rank")} of ${count(ranks.length)} ${ended() ? "delayed" : slow.length === 1 ? "delays" : "delay"} the others:`
                : "No rank is clearly slower than the others.");
  const listed = slow.slice(0, 3);
  if (slow.length > 3) listed.push({ rank: null, more: slow.length - 3 });
  keyed($("slow-ranks"), listed, (row) => row.rank, (row) => {
    const node = make("li");
    const button = make("button", "link");
    button.type = "button";
    button.addEventListener("click", () => (node.item.rank === null ? choosePart("straggler") : choose(node.item.rank, true)));
    node.append(button, make("span"));
    return node;
  }, (node, row) => {
    put(node.firstChild, row.rank === null ? `${several(row.more, "other rank")}` : `Rank ${row.rank}`);
    put(node.lastChild, row.rank === null ? "" : ` – ${row.straggler}`);
  });

  const losses = view.events.filter((event) => event.kind === "loss"), last = losses.at(-1);
  const lost = last ? `${several(losses.length, "loss", "losses")} so far, the last after ${duration(last.at)}: ${text(last.text)}` : "";
  const stopped = ended() && !left();
  put($("stops-title"), stopped ? "Why did it stop?" : "Was a rank lost?");
  if (stopped)
    answer("stops", failed ? "bad" : "good",
      `Exit code ${text(job.exit_code)}: ${text(job.end)}${last ? `, after ${several(losses.length, "loss", "losses")}` : ""}.`);
  else if (last) answer("stops", lostNow.length ? "bad" : "warn", lost);
  else answer("stops", "good", "No.");

  const parts = view.goodput.parts ?? {}, ettr = view.goodput.ettr;
  const trained = known(ettr) ? ` ${percent(ettr)} of the time made progress (ETTR ${ettr.toFixed(2)}).` : "";
  if (!known(parts.lost)) answer("cost", "none", `Not known yet.${trained}`);
  else if (parts.lost === 0 && !losses.length) answer("cost", "good", `Nothing.${trained}`);
  else answer("cost", "warn", `${duration(parts.lost)}, ${percent(parts.lost / total(parts))} of the time.${trained}`);
};

// ---- Where the time went ----
const PARTS = [
  ["compute", "forward, backward, update"], ["communicate", "collectives"], ["data", "waiting for samples"],
  ["wait", "waiting for slower ranks"], ["save", "checkpoints"], ["evaluate", "evaluation"], ["start", "start of ranks, rendezvous"],
  ["lost", "losses of ranks, steps made again"], ["other", ""]
];
const total = (parts) => Object.values(parts).reduce((sum, s) => sum + (known(s) ? s : 0), 0);
const drawGoodput = () => {
  const parts = view.goodput.parts ?? {}, all = total(parts);
  put($("ettr"), percent(view.goodput.ettr));
  const items = PARTS.filter(([name]) => known(parts[name]))
    .map(([name, what]) => ({ name, what, s: parts[name], share: all > 0 ? parts[name] / all : 0 }));
  keyed($("parts"), items.filter((part) => part.s > 0), (part) => part.name, (part) => make("div", `part ${part.name}`), (node, part) => {
    node.style.flexGrow = part.share;
    node.title = `${part.name}: ${duration(part.s)}, ${percent(part.share)}`;
  });
  attribute($("parts"), "aria-label",
    items.filter((part) => part.s > 0).map((part) => `${part.name} ${percent(part.share)}`).join(", ") || "not known yet");
  keyed($("legend"), items, (part) => part.name, (part) => {
    const row = make("tr"), name = make("td");
    name.append(make("span", `part ${part.name}`), `${part.name} `, make("small", "", part.what));
    row.append(name, make("td"), make("td"));
    return row;
  }, (row, part) => { put(row.children[1], duration(part.s)); put(row.children[2], percent(part.share)); });
};

// ---- Curves ----
const ticks = (low, high, wanted) => {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const gap = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const values = [];
  for (let i = Math.ceil(low / gap - 1e-9); i * gap <= high + gap * 1e-9; ++i) values.push(i * gap || 0);
  return values;
};
// Text nodes of one plot; as many as in the picture with the most of them.
const labels = (parent) => {
  const nodes = [];
  let used = 0;
  return {
    begin: () => { used = 0; },
    add: (x, y, content, anchor) => {
      const node = (nodes[used++] ??= draw("text", "", parent));
      attribute(node, "x", x.toFixed(1)); attribute(node, "y", y.toFixed(1)); attribute(node, "text-anchor", anchor);
      put(node, content);
    },
    end: () => { for (let i = used; i < nodes.length; ++i) put(nodes[i], ""); },
  };
};
// The part of the page where a plot is may be narrow; its text is not scaled, so the picture is drawn for the width it has.
const widths = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    target.plot.width = contentRect.width;
    show(target.plot.again);
  }
});
const observe = (node, plot) => { node.plot = plot; plot.width = node.clientWidth; widths.observe(node); };

const TITLES = { samples_per_s: "samples per second" };
const newCurve = ({ name }) => {
  const box = make("div"), head = make("div", "curve-head"), readout = make("span", "readout"), node = make("div", "plot");
  head.append(make("b", "", TITLES[name] ?? name), readout);
  attribute(node, "role", "slider"); attribute(node, "tabindex", 0); attribute(node, "aria-label", `${TITLES[name] ?? name} over steps`);
  const picture = draw("svg", "", node), H = 176, L = 52, R = 10, T = 18, B = 24;
  attribute(picture, "height", H); attribute(picture, "aria-hidden", true);
  const grid = draw("path", "grid", picture), generations = draw("path", "generation", picture), losses = draw("path", "loss", picture);
  const old = draw("path", "old", picture), line = draw("path", "value", picture), dots = draw("path", "dots", picture);
  const rule = draw("line", "cursor", picture), knob = draw("circle", "knob", picture), names = labels(picture);
  attribute(knob, "r", 4);
  let x = () => 0, y = () => 0, current = [];
  const plot = {
    width: 0,
    count: () => current.length,
    x: (i) => x(current[i][0]),
    show: (i) => {
      const point = current[i ?? current.length - 1], hidden = i === null || !point;
      rule.style.display = knob.style.display = hidden ? "none" : "";
      put(readout, point ? `step ${count(point[0])}: ${number(point[1])}` : "");
      readAloud(node, i, current.length, point ? `step ${count(point[0])}: ${number(point[1])}` : "no values");
      if (hidden) return;
      const px = x(point[0]).toFixed(1);
      attribute(rule, "x1", px); attribute(rule, "x2", px); attribute(rule, "y1", T); attribute(rule, "y2", H - B);
      attribute(knob, "cx", px); attribute(knob, "cy", y(point[1]).toFixed(1));
    },
    again: () => {
      const points = (view.curves.get(name) ?? []).filter((point) => known(point[0]) && known(point[1]));
      // Steps that were made again after a loss: those at or after a later point.
      const replaced = new Array(points.length);
      for (let i = points.length - 1, first = Infinity; i >= 0; --i) {
        replaced[i] = points[i][0] >= first;
        first = Math.min(first, points[i][0]);
      }
      current = points.filter((_, i) => !replaced[i]);
      let low = Infinity, high = -Infinity;
      for (const point of points) { low = Math.min(low, point[1]); high = Math.max(high, point[1]); }
      if (!points.length) [low, high] = [0, 1];
      if (name === "samples_per_s") low = Math.min(0, low);
      if (high - low <= Math.abs(high) * 1e-9) [low, high] = [low - (Math.abs(low) || 1) * 0.05, high + (Math.abs(high) || 1) * 0.05];
      const [first, last] = stepRange, W = Math.max(120, plot.width), pad = (high - low) * 0.06;
      x = (step) => L + ((step - first) / (last - first)) * (W - L - R);
      y = (value) => H - B - ((value - low + pad) / (high - low + 2 * pad)) * (H - B - T);
      attribute(picture, "viewBox", `0 0 ${W} ${H}`);
      names.begin();
      let path = "";
      for (const value of ticks(low, high, 5)) {
        path += `M${L} ${y(value).toFixed(1)}H${W - R}`;
        names.add(L - 6, y(value) + 4, number(Number(value.toPrecision(12))), "end");
      }
      for (const step of ticks(first, last, Math.max(2, Math.floor(W / 90))))
        if (Number.isInteger(step)) names.add(x(step), H - 7, count(step), "middle");
      attribute(grid, "d", path);
      const paths = { value: "", old: "" };
      points.forEach((point, i) => {
        const kind = replaced[i] ? "old" : "value", joins = i > 0 && replaced[i - 1] === replaced[i] && point[0] > points[i - 1][0];
        paths[kind] += `${joins ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`;
      });
      attribute(line, "d", paths.value); attribute(old, "d", paths.old);
      attribute(dots, "d",
        current.length > 40
          ? ""
          : current.map((point) => `M${(x(point[0]) - 2.6).toFixed(1)} ${y(point[1]).toFixed(1)}a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0 -5.2 0`)
              .join(""));
      const marks = { loss: "", generation: "" };
      const named = [];
      for (const event of view.events) {
        if (marks[event.kind] === undefined || !(event.onStep >= first && event.onStep <= last)) continue;
        const px = x(event.onStep);
        marks[event.kind] += `M${px.toFixed(1)} ${T}V${H - B}`;
        if (event.kind === "generation") named.push([px, generationOf(event)]);
      }
      let free = -Infinity;
      for (const [px, label] of named.sort((a, b) => a[0] - b[0]))
        if (px > free && px < W - 44) {
          names.add(px, T - 5, `gen. ${label}`, "start");
          free = px + 48;
        }
      attribute(losses, "d", marks.loss); attribute(generations, "d", marks.generation);
      names.end();
      plot.show(null);
      hand.again();
    },
  };
  const hand = cursor(node, plot);
  box.append(head, node);
  box.plotNode = node;
  observe(node, plot);
  return box;
};
let stepRange = [0, 1], curveItems = new Map();
const drawCurves = () => {
  let low = Infinity, high = -Infinity, again = false;
  for (const points of view.curves.values())
    for (const [step] of points)
      if (known(step)) {
        low = Math.min(low, step);
        high = Math.max(high, step);
      }
  stepRange = low < high ? [low, high] : known(high) ? [high - 1, high + 1] : [0, 1];
  const rank = (name) => (name === "loss" ? 0 : name === "samples_per_s" ? 2 : 1);
  const items = [...view.curves.keys()].sort((a, b) => rank(a) - rank(b)).map((name) => ({ name }));
  keyed($("curves"), items, (item) => item.name, newCurve, () => {});
  for (const box of $("curves").children) box.plotNode.plot.again();
  for (const points of view.curves.values()) again ||= points.some((point, i) => i > 0 && point[0] <= points[i - 1][0]);
  $("no-curves").hidden = items.length > 0;
  $("curve-key").hidden = items.length === 0 || !(again || view.events.some((event) => event.kind === "loss"));
};

// ---- Ranks ----
const STATES = ["failed", "lost", "straggler", "starting", "running", "ended"];   // in the order of how much they need a look
const stateOf = (row) => (row.state === "running" && row.straggler ? "straggler" : STATES.includes(row.state) ? row.state : "starting");
const shareText = (row) => percent(row.waits);
const COLUMNS = [
  ["rank", "Rank", (row) => row.rank], ["host", "Host", (row) => row.host], ["pid", "Pid", (row) => row.pid],
  ["generation", "Gen.", (row) => row.generation], ["state", "State", (row) => STATES.indexOf(stateOf(row))],
  ["step", "Step", (row) => row.step], ["rate", "Samples/s", (row) => row.rate], ["waits", "Waits", (row) => row.waits],
  ["memory", "Memory", (row) => row.memory], ["doing", "Current call", (row) => row.call || row.activity]
];
const NUMBERS = new Set(["rank", "pid", "generation", "step", "rate", "waits", "memory"]);
let sort = null, part = "all", wholeTable = false, here = null;

const headers = COLUMNS.map(([name, title]) => {
  const head = make("th", `c-${name}${NUMBERS.has(name) ? " number" : ""}`), button = make("button", "", title);
  attribute(head, "role", "columnheader"); attribute(head, "scope", "col");
  button.type = "button";
  if (name === "waits") button.title = "share of a step spent waiting for other ranks";
  if (name === "generation") button.title = "generation: how often the ranks of the job have met";
  button.addEventListener("click", () => { sort = { column: name, down: sort?.column === name ? !sort.down : false }; show(drawRanks); });
  head.append(button);
  $("columns").append(head);
  return head;
});
const compare = (a, b) => {
  const value = COLUMNS.find(([name]) => name === sort.column)[2], [x, y] = [value(a), value(b)];
  const missing = (x ?? null) === null || (y ?? null) === null;
  const order = missing ? ((x ?? null) === null) - ((y ?? null) === null) : (x < y ? -1 : x > y ? 1 : 0) * (sort.down ? -1 : 1);
  return order || a.rank - b.rank;
};
const fits = (row) => {
  const wanted = $("find").value.trim().toLowerCase();
  if (part !== "all" && stateOf(row) !== part) return false;
  return !wanted || String(row.rank) === wanted.replace(/^rank /, "") ||
    `${row.host ?? ""} ${row.call ?? ""} ${row.activity ?? ""}`.toLowerCase().includes(wanted);
};
const newRow = () => {
  const node = make("tr");
  attribute(node, "role", "row"); attribute(node, "tabindex", -1);
  for (const [name] of COLUMNS) {
    const cell = make("td", `c-${name} ${NUMBERS.has(name) ? "number" : name}`);
    attribute(cell, "role", "gridcell");
    node.append(cell);
    if (name === "state" || name === "doing" || name === "waits") cell.append(make("span"), make("span"));
    if (name === "waits") {
      cell.lastChild.className = "share";
      cell.lastChild.append(make("i"));
      attribute(cell.lastChild, "aria-hidden", true);
    }
    if (name === "state") attribute(cell.firstChild, "aria-hidden", true);
  }
  return node;
};
const doingOf = (row) => row.call || row.activity || "–";
const fillRow = (node, row) => {
  const [rank, host, pid, generation, state, step, rate, waits, memory, call] = node.children, name = stateOf(row);
  put(rank, count(row.rank)); put(host, text(row.host)); put(pid, text(row.pid)); put(generation, text(row.generation));
  host.title = text(row.host);
  mark(state.firstChild, name); put(state.lastChild, name);
  put(step, count(row.step)); put(rate, number(row.rate)); put(memory, bytes(row.memory));
  put(waits.firstChild, shareText(row));
  waits.lastChild.firstChild.style.width = `${Math.min(1, known(row.waits) ? row.waits : 0) * 100}%`;
  put(call.firstChild, doingOf(row));
  put(call.lastChild, row.straggler ? `slow: ${row.straggler}` : "");
  attribute(call.lastChild, "class", row.straggler ? "reason" : "");
};
const drawRanks = () => {
  const ranks = [...view.ranks.values()], numbers = new Map(STATES.map((name) => [name, 0]));
  for (const row of ranks) numbers.set(stateOf(row), numbers.get(stateOf(row)) + 1);
  const large = ranks.length > SMALL_WORLD;
  sort ??= ranks.length ? { column: large ? "state" : "rank", down: false } : null;

  const filters = [{ name: "all", n: ranks.length }, ...STATES.map((name) => ({ name, n: numbers.get(name) }))].filter(
    ({ name, n }) => n > 0 || name === part || name === "all");
  keyed($("filters"), filters, (item) => item.name, (item) => {
    const button = make("button");
    button.type = "button";
    if (item.name !== "all") { button.append(make("span", `shape ${item.name}`)); attribute(button.firstChild, "aria-hidden", true); }
    button.append(make("span"));
    button.addEventListener("click", () => choosePart(item.name === part ? "all" : item.name));
    return button;
  }, (button, item) => { put(button.lastChild, `${item.name} ${count(item.n)}`); attribute(button, "aria-pressed", item.name === part); });

  $("overview").hidden = !large;
  if (large) {
    const cells = [...ranks].sort((a, b) => a.rank - b.rank);
    keyed($("overview"), cells, (row) => row.rank, (row) => {
      const cell = make("div", "cell");
      cell.id = `cell-${row.rank}`;
      attribute(cell, "role", "option");
      cell.append(make("span"));
      return cell;
    }, (cell, row) => {
      mark(cell.firstChild, stateOf(row));
      attribute(cell, "aria-label", `Rank ${row.rank}: ${stateOf(row)}`);
      if (cell.title !== `Rank ${row.rank}: ${stateOf(row)}`) cell.title = `Rank ${row.rank}: ${stateOf(row)}`;
    });
    const choice = part !== "all" || $("find").value.trim() !== "";
    for (const cell of $("overview").children) {
      cell.classList.toggle("out", choice && !fits(cell.item));
      attribute(cell, "aria-selected", cell.item.rank === chosen);
    }
  }

  const body = $("rows"), fitting = ranks.filter(fits);
  const direction = sort?.down ? "descending" : "ascending";
  headers.forEach((head, i) => attribute(head, "aria-sort", sort?.column === COLUMNS[i][0] ? direction : "none"));
  if (sort) fitting.sort(compare);
  let wanted = wholeTable ? fitting : fitting.slice(0, SHORT_TABLE);
  // Rows stay where they are while somebody points at them or walks through them.
  if (body.matches(":hover") || body.contains(document.activeElement)) {
    const fit = new Set(fitting), kept = [...body.children].map((node) => view.ranks.get(node.item.rank)).filter((row) => fit.has(row)),
          keeps = new Set(kept);
    wanted = [...kept, ...fitting.filter((row) => !keeps.has(row))].slice(0, wholeTable ? Infinity : Math.max(kept.length, SHORT_TABLE));
  }
  keyed(body, wanted, (row) => row.rank, newRow, fillRow);
  const reach = body.contains(document.activeElement) ? document.activeElement : body.nodes.get(chosen) ?? body.firstChild;
  for (const node of body.children) {
    attribute(node, "tabindex", node === reach ? 0 : -1);
    attribute(node, "aria-selected", node.item.rank === chosen);
  }
  attribute($("table"), "aria-rowcount", fitting.length + 1);
  $("none").hidden = fitting.length > 0 || ranks.length === 0;
  $("more").hidden = fitting.length <= SHORT_TABLE;
  put($("more"), wholeTable ? `Show the first ${SHORT_TABLE} alone` : `Show all ${count(fitting.length)} rows`);
};
const choosePart = (name) => { part = name; show(drawRanks); };
$("find").addEventListener("input", () => show(drawRanks));
$("more").addEventListener("click", () => { wholeTable = !wholeTable; show(drawRanks); });
$("rows").addEventListener("click", (event) => { const node = event.target.closest("tr"); if (node) choose(node.item.rank); });
$("rows").addEventListener("keydown", (event) => {
  const node = event.target.closest("tr"), all = [...$("rows").children], at = all.indexOf(node);
  if (event.key === "Enter" || event.key === " ") choose(node.item.rank, true);
  else if (event.key === "Escape") choose(null);
  else {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    const next = all[Math.min(all.length - 1, Math.max(0, to))];
    for (const other of all) attribute(other, "tabindex", other === next ? 0 : -1);
    next.focus();
  }
  event.preventDefault();
});
const point = (cell) => {
  if (here) here.classList.remove("here");
  here = cell;
  if (!cell) return;
  cell.classList.add("here");
  attribute($("overview"), "aria-activedescendant", cell.id);
  cell.scrollIntoView({ block: "nearest" });
};
$("overview").addEventListener("click", (event) => {
  const cell = event.target.closest(".cell");
  if (cell) {
    point(cell);
    choose(cell.item.rank, true);
  }
});
$("overview").addEventListener("focus", () => point(here?.isConnected ? here : $("overview").firstChild));
$("overview").addEventListener("keydown", (event) => {
  const all = [...$("overview").children], at = Math.max(0, all.indexOf(here));
  const line = Math.max(1, all.filter((cell) => cell.offsetTop === all[0].offsetTop).length);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + line, ArrowUp: at - line, Home: 0, End: all.length - 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") choose(all[at].item.rank, true);
  else if (event.key === "Escape") choose(null);
  else if (to !== undefined && to >= 0 && to < all.length) point(all[to]);
  else if (to === undefined) return;
  event.preventDefault();
});

// ---- The details of a rank ----
let armed = null;   // when the button to kill was pressed once, in seconds
const send = (message) => { if (live) live.send(JSON.stringify(message)); };
const choose = (rank, go) => {
  if (rank === chosen && go === undefined) rank = null;
  const was = chosen, change = rank !== chosen, inside = $("details").contains(document.activeElement);
  chosen = rank;
  armed = null;
  if (change) { put($("answer"), ""); send({ type: "lines", rank }); if (live) view.lines.clear(); }
  show(drawRanks, drawDetails, () => {
    if (chosen !== null && go) { $("details").focus({ preventScroll: true }); $("details").scrollIntoView({ block: "nearest" }); }
    if (chosen === null && inside) ($("rows").nodes?.get(was) ?? $("table")).focus?.();
  });
};
const drawDetails = () => {
  const row = view.ranks.get(chosen), box = $("details");
  $("details").parentNode.classList.toggle("open", row !== undefined);
  box.hidden = row === undefined;
  if (!row) return;
  put($("details-title"), `Rank ${row.rank}`);
  $("details-reason").hidden = !row.straggler;
  put($("details-reason"), row.straggler ? `Slow: ${row.straggler}` : "");
  const facts = [
    ["State", stateOf(row)], ["Host", text(row.host)], ["Pid", text(row.pid)], ["Generation", text(row.generation)],
    ["Step", count(row.step)], ["Samples/s", number(row.rate)], ["Waits for others", shareText(row)], ["Memory", bytes(row.memory)],
    ["Activity", text(row.activity)], ["Current call", text(row.call)]
  ];
  const list = $("facts");
  if (!list.firstChild) for (const [name] of facts) list.append(make("dt", "", name), make("dd"));
  facts.forEach(([, value], i) => put(list.children[2 * i + 1], value));
  const lines = view.lines.get(chosen), node = $("lines"), atEnd = node.scrollTop + node.clientHeight >= node.scrollHeight - 4;
  const without = view.job.has_output === false ? "Its output is where it was started, and not here."
    : lines || data ? "It has printed nothing." : live ? "Waiting for the lines." : "Not known without a connection.";
  put(node, lines?.length ? lines.slice(-MAX_LINES).map(printable).join("\n") : without);
  if (atEnd) node.scrollTop = node.scrollHeight;
  const can = view.job.can_kill === true && !ended();
  $("kill-box").hidden = !can;
  if (!can) return;
  const alive = row.state === "running" || row.state === "starting";
  $("kill").disabled = !alive || !live;
  if (!alive) armed = null;
  put($("kill"), armed === null ? `Kill rank ${row.rank} …` : `Press again to kill rank ${row.rank} (pid ${text(row.pid)})`);
  attribute($("kill"), "class", armed === null ? "danger" : "danger armed");
};
const seconds = () => performance.now() / 1000;
$("kill").addEventListener("click", () => {
  if (armed === null) {
    armed = seconds();
    put($("answer"), `A second press kills rank ${chosen}.`);
  } else if (seconds() - armed > DOUBLE_PRESS_S) {
    armed = null;
    put($("answer"), "Sent.");
    send({ type: "kill", rank: chosen });
  }
  drawDetails();
});
const disarm = () => { if (armed !== null) { armed = null; put($("answer"), ""); drawDetails(); } };
$("kill").addEventListener("blur", disarm);
$("close").addEventListener("click", () => choose(null));
$("details").addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });

// ---- What happened ----
const LANES = [
  ["generation", "generations"], ["loss", "losses"], ["return", "returns"], ["save", "saves"], ["evaluation", "evaluations"],
  ["decision", "decisions"]
];
const SHAPES = {
  loss: (x, y) => `M${x - 4} ${y - 4}l8 8M${x + 4} ${y - 4}l-8 8`,
  return: (x, y) => `M${x} ${y - 5}v10M${x - 5} ${y}h10`,
  save: (x, y) => `M${x} ${y - 5}v10`,
  evaluation: (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0`,
  decision: (x, y) => `M${x} ${y - 5}l5 5l-5 5l-5 -5z`
};
const timeLine = (() => {
  const node = $("times"), picture = draw("svg", "", node), ROW = 22, L = 84, R = 12, T = 4;
  attribute(picture, "aria-hidden", true);
  const grid = draw("path", "grid", picture), band = draw("path", "band", picture), rule = draw("line", "cursor", picture),
        names = labels(picture);
  const lanes = new Map(LANES.slice(1).map(([kind]) => [kind, draw("path", `lane-${kind}`, picture)]));
  let x = () => 0, height = 0;
  const plot = {
    width: 0,
    count: () => view.events.length,
    x: (i) => x(view.events[i].at),
    show: (i) => {
      const event = view.events[i ?? view.events.length - 1];
      rule.style.display = i === null || !event ? "none" : "";
      const content = event
        ? `${duration(event.at)} · ${event.kind}${known(event.rank) ? ` · rank ${event.rank}` : ""}: ${text(event.text)}`
        : "No events yet.";
      put($("event"), i === null && event ? `Last: ${content}` : content);
      readAloud(node, i, view.events.length, content);
      if (i === null || !event) return;
      attribute(rule, "x1", x(event.at).toFixed(1));
      attribute(rule, "x2", x(event.at).toFixed(1));
      attribute(rule, "y1", T);
      attribute(rule, "y2", height - 20);
    },
    again: () => {
      const present = LANES.filter(([kind]) => kind === "generation" || view.events.some((event) => event.kind === kind));
      const W = Math.max(200, plot.width), end = Math.max(elapsed() ?? 0, view.events.at(-1)?.at ?? 0, 1);
      height = T + present.length * ROW + 24;
      x = (at) => L + (at / end) * (W - L - R);
      attribute(picture, "viewBox", `0 0 ${W} ${height}`); attribute(picture, "height", height);
      names.begin();
      let lines = "";
      present.forEach(([, title], i) => {
        names.add(0, T + i * ROW + 15, title, "start");
        lines += `M${L} ${T + (i + 1) * ROW}H${W - R}`;
      });
      const unit = end < 180 ? 1 : end < 10800 ? 60 : 3600, sign = { 1: "s", 60: "min", 3600: "h" }[unit];
      for (const value of ticks(0, end / unit, Math.max(2, Math.floor((W - L) / 90)))) {
        lines += `M${x(value * unit).toFixed(1)} ${T}v${present.length * ROW}`;
        names.add(x(value * unit), height - 6, `${number(value)} ${sign}`, x(value * unit) > W - 30 ? "end" : "middle");
      }
      attribute(grid, "d", lines);
      const met = view.events.filter((event) => event.kind === "generation");
      let bands = "", free = -Infinity;
      met.forEach((event, i) => {
        const from = x(event.at), to = x(met[i + 1]?.at ?? end), name = generationOf(event);
        bands += `M${from.toFixed(1)} ${T + 2}H${Math.max(from + 1, to - 1).toFixed(1)}V${T + ROW - 2}H${from.toFixed(1)}z`;
        if (to - from > 12 + 7 * name.length && from > free) { names.add(from + 6, T + 15, name, "start"); free = from; }
      });
      attribute(band, "d", bands);
      for (const [kind, path] of lanes) {
        const row = present.findIndex(([other]) => other === kind), middle = T + row * ROW + ROW / 2;
        attribute(path, "d",
          row < 0 ? ""
                  : view.events.filter((event) => event.kind === kind)
                      .map((event) => SHAPES[kind](Number(x(event.at).toFixed(1)), middle))
                      .join(""));
      }
      names.end();
      plot.show(null);
      hand.again();
    },
  };
  const hand = cursor(node, plot);
  observe(node, plot);
  return plot;
})();
const eventList = (node, events) => keyed(node, events, (event) => event.id, () => {
  const item = make("li"), body = make("span");
  body.append(make("b"), make("span"));
  item.append(make("time"), body);
  return item;
}, (item, event) => {
  put(item.firstChild, duration(event.at));
  put(item.lastChild.firstChild, `${event.kind}${known(event.rank) ? ` (rank ${event.rank})` : ""}: `);
  put(item.lastChild.lastChild, text(event.text));
});
const CHANGES = new Set(["loss", "return", "generation", "end"]);
const drawEvents = () => {
  timeLine.again();
  eventList($("decisions"), view.events.filter((event) => event.kind === "decision").slice(-8).reverse());
  eventList($("changes"), view.events.filter((event) => CHANGES.has(event.kind)).slice(-8).reverse());
  put($("all-title"), `All events (${count(view.events.length)})`);
  eventList($("all-events"), $("all").open ? [...view.events].reverse() : []);
};
$("all").addEventListener("toggle", () => show(drawEvents));

// ---- The connection ----
let backoff = 0.5, retryAt = null, wrong = null;
const drawConnection = () => {
  const silent = live ? (performance.now() - lastMessage) / 1000 : 0;
  const content = wrong ?? (ended() ? "" : retryAt !== null ? "The connection is lost: what is shown is old."
    : !live ? "Connecting …" : silent > 10 ? "There was no message for more than 10 s." : "");
  put($("connection-text"), content);
  // Apart from the text that screen readers read aloud when it changes.
  put($("connection-next"), retryAt === null || wrong ? "" : `Next try in ${Math.max(0, Math.ceil(retryAt - seconds()))} s.`);
  $("connection").hidden = content === "";
  $("connect-now").hidden = retryAt === null || wrong !== null;
};
const receive = (data) => {
  let message = null;
  try { message = JSON.parse(data); } catch { return; }
  if (message === null || typeof message !== "object") return;
  lastMessage = performance.now();
  if (message.type === "job" && message.protocol !== 1) {
    wrong = `This page does not know the messages of the server (version ${text(message.protocol)}). Load the page again.`;
    live?.close();
  } else if (message.type === "job" || message.type === "update") {
    apply(message);
  } else if (message.type === "lines" && message.rank === chosen && Array.isArray(message.lines)) {
    view.lines.clear();
    view.lines.set(message.rank, message.lines.slice(-MAX_LINES));
    show(drawDetails);
  } else if (message.type === "answer" && message.rank === chosen) {
    put($("answer"), `${message.ok ? "" : "Not done: "}${text(message.text)}`);
  }
};
const connect = () => {
  retryAt = null;
  const token = new URLSearchParams(location.search).get("token") ?? "";
  const socket =
    new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/view?token=${encodeURIComponent(token)}`);
  let over = false;
  socket.onopen = () => {
    live = socket;
    backoff = 0.5;
    lastMessage = received = performance.now();
    if (chosen !== null) send({ type: "lines", rank: chosen });
    drawConnection();
  };
  socket.onmessage = (event) => { if (!over) receive(event.data); };
  // Also called where a connection is silent: the close of such a socket may take long.
  socket.onclose = socket.giveUp = () => {
    if (over) return;
    over = true;
    if (live === socket) live = null;
    if (!ended() && wrong === null) { retryAt = seconds() + backoff; backoff = Math.min(MAX_BACKOFF_S, backoff * 2); }
    show(drawAnswers, drawDetails);
    drawConnection();
  };
};
$("connect-now").addEventListener("click", connect);
const tick = () => {
  if (ended()) return;
  if (live && performance.now() - lastMessage > SILENCE_S * 1000) { const socket = live; socket.close(); socket.giveUp(); }
  if (retryAt !== null && seconds() >= retryAt) connect();
  if (armed !== null && seconds() - armed > ARMED_S) disarm();
  if (view.job.state) { drawTime(); show(drawAnswers); }
  drawConnection();
};

if (data) {
  apply(JSON.parse(data.textContent));
} else {
  connect();
  setInterval(tick, 1000);
}
drawConnection();
