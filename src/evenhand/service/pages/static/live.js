// The page of a run in progress: reads the stream of events and writes what it says into the page.
"use strict";

(() => {
  const live = document.getElementById("live");
  const at = (id) => document.getElementById(id);
  const phases = JSON.parse(live.dataset.phases);
  const states = JSON.parse(live.dataset.states);
  const populations = JSON.parse(live.dataset.populations);
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const made = (name, kind, text) => {
    const element = document.createElement(name);
    if (kind) element.className = kind;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const duration = (seconds) => {
    const all = Math.max(0, Math.round(seconds));
    if (all < 60) return `${all} s`;
    if (all < 3600) return `${Math.floor(all / 60)} min ${all % 60} s`;
    return `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} min`;
  };
  // A measurement says what it changes and where it looks: "sex, uniform".
  const phaseWords = (phase) => {
    const comma = phase.lastIndexOf(", "), population = populations[phase.slice(comma + 2)];
    if (comma > 0 && population) return `Changing ${phase.slice(0, comma)}: ${population}`;
    return phases[phase] || phase.charAt(0).toUpperCase() + phase.slice(1);
  };
  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  let state = live.dataset.state, phase = "";

  const showCurve = (growth) => {
    if (!at("curve") || growth.length < 2) return;
    const points = growth[0][0] > 0 ? [[0, 0], ...growth] : growth;
    const chart = { title: "Findings over seconds of searching", across: "seconds", lines: [{ name: "findings", points }] };
    at("live-chart").replaceChildren(window.evenhandCharts.lines(chart));
    at("curve-rows").replaceChildren(
      ...growth.map(([seconds, findings]) => {
        const row = made("tr");
        row.append(made("td", "number", seconds.toFixed(1)), made("td", "number", whole.format(findings)));
        return row;
      }),
    );
    at("curve").hidden = false;
  };

  const showProgress = (run) => {
    if (run.state !== state) {
      // Buttons and words differ from state to state; the server has them all.
      if (run.state === "cancelling" || state === "cancelling") return location.reload();
      state = run.state;
      const badge = document.querySelector(`h1 [data-run-state="${run.id}"]`);
      badge.textContent = states[state];
      badge.className = `state ${state}`;
    }
    const waits = state === "queued" || state === "interrupted";
    at("waiting").hidden = !waits;
    at("going").hidden = waits;
    const progress = run.progress || {};
    if (progress.phase === undefined) return;
    const words = phaseWords(progress.phase);
    if (words !== phase) at("status").textContent = words; // said aloud once, not with every number
    phase = words;
    at("phase").textContent = words;
    if (progress.total) at("bar").value = Math.min(1, progress.done / progress.total);
    at("left").textContent = typeof progress.left === "number" ? `About ${duration(progress.left)} left in this phase` : "";
    at("seconds").textContent = duration(progress.seconds || 0);
    if (at("findings") && progress.findings !== undefined) {
      at("findings").textContent = whole.format(progress.findings);
      const speed = progress.findings && progress.seconds ? progress.findings / progress.seconds : 0;
      at("speed").textContent = speed ? whole.format(speed) : "–";
    }
    showCurve(progress.growth || []);
  };

  const quoted = (parts) => {
    const box = made("p", "quote");
    box.dir = "auto";
    box.append(...parts.map(([kind, text]) => (kind ? made(kind === "gap" ? "span" : "mark", kind, text) : text)));
    return box;
  };

  const side = (one, scoreOf) => {
    const box = made("div", one.got === false ? "side without" : "side");
    const values = made("p");
    one.protected.forEach(([value, differs], place) => {
      if (place) values.append(", ");
      values.append(differs ? made("mark", "", value) : value);
    });
    const score = `model’s score for ‘${scoreOf}’: ${percent(one.score)}`;
    const role = one.text ? `${one.protected[0][0]} (${one.role})` : one.role;
    box.append(made("p", "small", role), one.text ? quoted(one.text) : values);
    box.append(made("p", "decision", one.label), made("p", "small", score));
    return box;
  };

  const revealed = (card, number) => {
    const box = made("input", "reveal"), words = made("label", "reveal-label", ` Show pair ${number} (strong words)`);
    box.type = "checkbox";
    box.id = words.htmlFor = `reveal-${number}`;
    card.classList.add("strong");
    card.append(box, words);
  };

  const showPair = (pair) => {
    const examples = at("examples");
    if (!examples) return;
    const number = examples.children.length + 1;
    const card = made("li", "card"), covered = made("div", "covered"), sides = made("div", "sides");
    sides.append(...pair.sides.map((one) => side(one, pair.score_of)));
    covered.append(sides);
    const changes = (pair.changes || []).map(([before, after]) => `‘${before}’ → ${after}`).join(", ");
    if (changes) covered.append(made("p", "small quote", `Replaced: ${changes}`));
    if (pair.origin) covered.append(made("p", "small", pair.origin));
    if (pair.original && pair.original.length) covered.append(quoted(pair.original));
    card.append(made("h3", "", `Pair ${number}`));
    if (pair.strong) revealed(card, number);
    if (pair.description) card.append(made("p", "", pair.description));
    card.append(covered);
    examples.append(card);
    at("no-examples").hidden = true;
  };

  const data = (event) => JSON.parse(event.data);
  const stream = new EventSource(`/api/v1/runs/${live.dataset.run}/events/stream?after=${live.dataset.last}`);
  stream.addEventListener("progress", (event) => showProgress(data(event)));
  stream.addEventListener("pair", (event) => showPair(data(event).data));
  stream.addEventListener("resumed", (event) => {
    const { step, total } = data(event).data;
    at("resumed").textContent = `Its worker stopped. It goes on from its last checkpoint, at step ${step} of ${total}.`;
    at("resumed").hidden = false;
  });
  stream.addEventListener("end", () => {
    stream.close();
    location.reload();
  });
  window.addEventListener("pagehide", () => stream.close());
  showCurve(JSON.parse(live.dataset.growth));
})();
