// Charts drawn from JSON. Every chart has a table on its page with the same figures, so a chart that fails costs nothing.
"use strict";

(() => {
  const WIDTH = 680, HEIGHT = 320, TOP = 28, BOTTOM = 52, LEFT = 6, RIGHT = 160;
  const whole = new Intl.NumberFormat("en");

  const svg = (name, attributes = {}, text = null) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    return element;
  };

  const canvas = (title, height) => {
    const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img" });
    drawing.setAttribute("aria-label", title);
    return drawing;
  };

  // Round numbers from 0 to at most `most`, about as many as wanted.
  const ticks = (most, wanted = 4) => {
    const rough = most / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
    const found = [];
    for (let value = 0; value <= most * 1.0001; value += step) found.push(value);
    return found;
  };

  const short = (value) => (value >= 1e6 ? `${whole.format(value / 1e6)} M` : whole.format(value));

  // chart: {title, across, lines: [{name, points: [[x, y], …]}]}
  const lines = (chart) => {
    const xMost = Math.max(1e-9, ...chart.lines.flatMap((line) => line.points.map((point) => point[0])));
    const yMost = Math.max(1, ...chart.lines.flatMap((line) => line.points.map((point) => point[1])));
    const x = (value) => LEFT + ((WIDTH - LEFT - RIGHT) * value) / xMost;
    const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / yMost;
    const drawing = canvas(chart.title, HEIGHT);
    for (const value of ticks(yMost)) {
      drawing.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      if (value) drawing.append(svg("text", { x: LEFT, y: y(value) - 5 }, short(value)));
    }
    for (const value of ticks(xMost)) {
      const anchor = value ? "middle" : "start";
      drawing.append(svg("text", { x: x(value), y: HEIGHT - BOTTOM + 22, "text-anchor": anchor }, short(value)));
    }
    drawing.append(svg("text", { x: x(xMost / 2), y: HEIGHT - 5, "text-anchor": "middle" }, chart.across));
    let lowest = -Infinity;
    const ordered = [...chart.lines].sort((a, b) => b.points.at(-1)[1] - a.points.at(-1)[1]);
    for (const line of ordered) {
      const second = chart.lines.length > 1 && line === chart.lines[0] ? " second" : "";
      const places = line.points.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" ");
      drawing.append(svg("polyline", { class: `line${second}`, points: places }));
      const height = Math.max(y(line.points.at(-1)[1]), lowest + 58, 18);
      lowest = height;
      const name = svg("text", { class: `name${second}`, x: WIDTH - RIGHT + 8, y: Math.min(height, HEIGHT - BOTTOM - 20) }, line.name);
      name.append(svg("tspan", { x: WIDTH - RIGHT + 8, dy: "1.15em" }, whole.format(line.points.at(-1)[1])));
      drawing.append(name);
    }
    return drawing;
  };

  const percent = (share) => `${(100 * share).toFixed(share && share < 0.1 ? 2 : 1)}%`;

  // chart: {title, groups: [{name, bars: [{name, share, interval: [low, high]}]}]}
  const bars = (chart) => {
    const all = chart.groups.flatMap((group) => group.bars);
    const most = Math.max(1e-9, ...all.flatMap((bar) => [bar.share, bar.interval ? bar.interval[1] : 0]));
    const across = (share) => ((WIDTH - 200) * share) / most; // room for words, at the size that a phone needs
    const height = chart.groups.length * 40 + all.length * 30 + 4;
    const drawing = canvas(chart.title, height);
    let y = 0;
    for (const group of chart.groups) {
      const name = group.name.length > 48 ? `${group.name.slice(0, 47)}…` : group.name;
      drawing.append(svg("text", { class: "row-name", x: 0, y: y + 24 }, name));
      y += 34;
      for (const [place, bar] of group.bars.entries()) {
        const kind = group.bars.length > 1 && place === 0 ? "bar second" : "bar";
        drawing.append(svg("rect", { class: kind, x: 0, y, width: Math.max(across(bar.share), 1), height: 22 }));
        let end = across(bar.share);
        if (bar.interval) {
          const [low, high] = bar.interval.map(across);
          drawing.append(svg("line", { class: "interval", x1: low, x2: Math.max(high, low + 2), y1: y + 11, y2: y + 11 }));
          end = Math.max(end, high);
        }
        const words = group.bars.length > 1 ? `${bar.name} ${percent(bar.share)}` : bar.name;
        drawing.append(svg("text", { x: end + 8, y: y + 17 }, words));
        y += 30;
      }
      y += 6;
    }
    return drawing;
  };

  const kinds = { lines, bars };
  window.evenhandCharts = kinds;

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    fetch(figure.dataset.from, { headers: { Accept: "application/json" } })
      .then((answer) => (answer.ok ? answer.json() : null))
      .then((chart) => {
        const parts = chart && (chart.groups || chart.lines.filter((line) => line.points.length > 1));
        if (!parts || !parts.length) return;
        figure.prepend(kinds[figure.dataset.chart](chart));
        figure.hidden = false;
      });
  }
})();
