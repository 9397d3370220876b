(() => {
  'use strict';
  // Everything that comes from a cluster goes into the page through text nodes and attributes set one by one, never as markup.
  const SVG = 'http://www.w3.org/2000/svg';
  const LEFT = 44, RIGHT = 8, HEIGHT = 118, TOP = 8, BOTTOM = 18;
  const MARK_GAP = 26, LIST_MAX = 1000, POLL_MS = 3000, PRESS_MAX_MS = 1000;
  const SIGNS = { up: '▲', down: '▼', failed: '✕', none: '◆', event: '●', mixed: '' };
  const KINDS = { up: 'scale-up', down: 'scale-down', failed: 'failed', none: 'not possible', event: 'event' };

  const byId = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(byId(id).textContent);
  const fill = (node, attributes, kids) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? '' : value);
    }
    for (const kid of kids.flat()) if (kid !== null && kid !== undefined && kid !== false && kid !== '') node.append(kid);
    return node;
  };
  const el = (tag, attributes, ...kids) => fill(document.createElement(tag), attributes, kids);
  const svg = (tag, attributes, ...kids) => fill(document.createElementNS(SVG, tag), attributes, kids);

  let doc = read('data');
  const source = read('source');
  let items = [];
  let cursor = null;
  let chosen = new Set();
  let listFrom = 0;
  let drawn = [];

  // Words and numbers.
  const pad = (number) => String(number).padStart(2, '0');
  const date = (second) => new Date((doc.startAt + second) * 1000);
  const clock = (second, short) => {
    const at = date(second);
    const day = doc.lengthSeconds > 86400 || second < -43200 ? `${['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'][at.getUTCDay()]} ` : '';
    return `${day}${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}${short ? '' : `:${pad(at.getUTCSeconds())}`}`;
  };
  const number = (value, digits = 0) => value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const length = (seconds) => {
    if (seconds < 60) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
    const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.round(seconds % 60)];
    return hours ? `${hours} h ${minutes} min` : `${minutes} min ${rest} s`;
  };
  const count = (n, word) => `${number(n)} ${word}${n === 1 ? '' : 's'}`;
  const cores = (milli) => number(milli / 1000, milli < 10000 && milli % 1000 ? 1 : 0);

  // What the charts show. `of` is null where there is nothing to show.
  const total = (s) => s.readyNodes + s.startingNodes + s.leavingNodes;
  const CHARTS = [
    { id: 'nodes', title: 'Nodes', show: (v) => number(v), runs: [[
      { name: 'ready', paint: 'stack', tone: 'ready', of: (s) => s.readyNodes },
      { name: 'starting or not ready', paint: 'stack', tone: 'starting', of: (s) => s.startingNodes },
      { name: 'leaving', paint: 'stack', tone: 'leaving', of: (s) => s.leavingNodes },
    ], [{ name: 'B, all', paint: 'line', tone: 'b', of: total }]] },
    { id: 'pods', title: 'Pods', show: (v) => number(v), runs: [[
      { name: 'waiting for a node', paint: 'area', tone: 'pending', of: (s) => s.pendingPods },
      { name: 'running', paint: 'line', tone: 'a', of: (s) => s.runningPods },
      { name: 'wanted', paint: 'line', tone: 'wanted', of: (s) => s.wantedPods },
    ], [{ name: 'B, waiting', paint: 'line', tone: 'b', of: (s) => s.pendingPods }]] },
    { id: 'cpu', title: 'CPUs: demand against capacity', show: cores, scale: 1000, runs: [[
      { name: 'offered', paint: 'area', tone: 'offered', of: (s) => s.capacityCpuMilli },
      { name: 'asked for', paint: 'line', tone: 'a', of: (s) => s.demandCpuMilli },
    ], [{ name: 'B, offered', paint: 'line', tone: 'b', of: (s) => s.capacityCpuMilli }]] },
    { id: 'wait', title: 'Longest wait of pods that began to run', show: length, axis: (v) => `${Math.floor(v / 60)}:${pad(Math.round(v % 60))}`, runs: [[
      { name: 'from creation to running', paint: 'bars', tone: 'a', of: (s) => s.longestWaitSeconds },
    ], [{ name: 'B', paint: 'dots', tone: 'b', of: (s) => s.longestWaitSeconds }]] },
    { id: 'cost', title: 'Cost per hour', show: (v) => number(v, 2), runs: [[
      { name: 'nodes with a price', paint: 'line', tone: 'a', of: (s) => s.costPerHour },
    ], [{ name: 'B', paint: 'line', tone: 'b', of: (s) => s.costPerHour }]] },
  ];

  const kindOf = (decision) => {
    if (decision.outcome === 'Failed') return 'failed';
    return decision.action === 'ScaleUp' ? 'up' : decision.action === 'ScaleDown' ? 'down' : 'none';
  };
  const sizes = (d) => (d.from !== undefined && d.to !== undefined ? ` ${d.from} → ${d.to}` : '');
  const gather = () => {
    items = [];
    doc.runs.forEach((run, index) => {
      for (const d of run.decisions) {
        items.push({ key: `${index}/${d.pool}/${d.id}`, run: index, kind: kindOf(d), second: d.second, decision: d, words: `${d.pool}${sizes(d)}`, more: d.reason });
      }
      run.events.forEach((e, place) => {
        if (index === 0) items.push({ key: `${index}//${place}`, run: index, kind: 'event', second: e.second, words: e.message });
      });
    });
    items.sort((x, y) => x.second - y.second || x.run - y.run);
  };

  // Head and figures.
  const head = () => {
    document.title = `${doc.title} · Headroom`;
    byId('title').textContent = doc.title;
    byId('description').textContent = doc.description;
    const day = date(0).toISOString().slice(0, 16).replace('T', ' ');
    byId('meta').textContent = doc.kind === 'Live'
      ? `as of ${date(doc.live.at - doc.startAt).toISOString().slice(11, 19)} UTC · ${doc.live.leading ? 'this replica leads' : 'this replica does not lead'}`
      : `from ${day} UTC, ${length(doc.lengthSeconds)}, seed ${doc.runs[0].seed}`;
  };
  const FIGURES = [
    ['Cost', (s) => (s.unpricedNodeHours > 0.005 && s.cost === 0 ? null : s.cost), (v) => number(v, 2),
      (s) => (s.unpricedNodeHours > 0.005 ? `without ${number(s.unpricedNodeHours, 1)} node-hours of no price` : '')],
    ['Longest wait', (s) => s.waitSeconds && s.waitSeconds.longest, length],
    ['Wait, 95th percentile', (s) => s.waitSeconds && s.waitSeconds.p95, length],
    ['Mean wait', (s) => s.waitSeconds && s.waitSeconds.mean, length],
    ['Pods served', (s) => s.podsServed, number],
    ['Waiting at the end', (s) => s.podsPending, number],
    ['Node-hours', (s) => s.nodeHours, (v) => number(v, 1)],
    ['Most nodes', (s) => s.nodesMax, number],
    ['CPU asked for', (s) => s.utilizationPercent, (v) => `${number(v)} %`],
    ['Disruptions', (s) => s.disruptionsCount, number],
    ['Decisions', (s) => s.decisionsCount, number],
  ];
  const figure = (name, value, other, note) => el('div', { class: 'figure' },
    el('div', { class: 'name' }, name), el('div', { class: 'value' }, value),
    other && el('div', { class: 'other' }, other), note && el('div', { class: 'note' }, note));
  const figures = () => {
    const [a, b] = doc.runs.map((run) => run.summary);
    const cards = [];
    if (doc.runs.length > 1) {
      const name = (run, index) => el('span', {}, el('i', { class: `swatch stroke s-${index ? 'b dash' : 'a'}`, 'aria-hidden': 'true' }), `${index ? 'B' : 'A'}: ${run.name}`);
      cards.push(el('div', { class: 'runs' }, doc.runs.map(name)));
    }
    if (a) {
      for (const [name, of, show, note] of FIGURES) {
        const [x, y] = [of(a), b ? of(b) : undefined];
        const shown = (value) => (value === null || value === undefined ? 'unknown' : show(value));
        const change = b && x && y !== null && y !== x ? ` (${y < x ? '−' : '+'}${number(Math.abs(y - x) * 100 / x)} %)` : '';
        cards.push(figure(name, shown(x), b && `B: ${shown(y)}${change}`, note && note(a)));
      }
    } else {
      const last = doc.runs[0].series[doc.runs[0].series.length - 1];
      if (last) {
        cards.push(figure('Nodes ready', number(last.readyNodes), '', last.startingNodes + last.leavingNodes ? `${last.startingNodes} starting or not ready, ${last.leavingNodes} leaving` : ''));
        cards.push(figure('Pods running', number(last.runningPods)), figure('Pods waiting', number(last.pendingPods)));
        cards.push(figure('CPU asked for', last.capacityCpuMilli ? `${number(last.demandCpuMilli * 100 / last.capacityCpuMilli)} %` : 'no nodes', '', `${cores(last.demandCpuMilli)} of ${cores(last.capacityCpuMilli)}`));
        cards.push(figure('Cost per hour', last.costPerHour === null ? 'unknown' : number(last.costPerHour, 2)));
      }
    }
    byId('figures').replaceChildren(...cards);
  };

  // Charts.
  const width = () => Math.max(200, byId('charts').clientWidth);
  const xOf = (second, w) => LEFT + (w - LEFT - RIGHT) * Math.min(1, Math.max(0, second / Math.max(1, doc.lengthSeconds)));
  const nice = (most) => {
    const power = 10 ** Math.floor(Math.log10(Math.max(most, 1e-9)));
    return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((top) => top >= most - 1e-9) || most;
  };
  const topOf = (chart, used) => {
    let most = 0;
    doc.runs.forEach((run, index) => {
      const rows = used[index];
      for (const s of run.series) {
        let stacked = 0;
        for (const row of rows) {
          const value = row.of(s) || 0;
          stacked += row.paint === 'stack' ? value : 0;
          most = Math.max(most, value, stacked);
        }
      }
    });
    const scale = chart.scale || 1;
    const least = { cost: 0.01, wait: 20 }[chart.id] || 4;
    return nice(Math.max(most / scale, least)) * scale;
  };
  const stepLine = (points, w, y) => {
    let path = '', open = false;
    points.forEach(([second, value]) => {
      if (value === null || value === undefined) { open = false; return; }
      const [px, py] = [xOf(second, w).toFixed(1), y(value).toFixed(1)];
      path += open ? `H${px}V${py}` : `M${px} ${py}`;
      open = true;
    });
    return open ? `${path}H${xOf(doc.lengthSeconds, w).toFixed(1)}` : path;
  };
  const stepArea = (low, high, w, y) => {
    if (!high.length) return '';
    let path = `M${xOf(high[0][0], w).toFixed(1)} ${y(high[0][1]).toFixed(1)}`;
    for (const [second, value] of high.slice(1)) path += `H${xOf(second, w).toFixed(1)}V${y(value).toFixed(1)}`;
    path += `H${xOf(doc.lengthSeconds, w).toFixed(1)}`;
    for (let i = low.length - 1; i >= 0; i -= 1) path += `V${y(low[i][1]).toFixed(1)}H${xOf(low[i][0], w).toFixed(1)}`;
    return `${path}Z`;
  };
  const ticks = (w) => {
    const steps = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800];
    const step = steps.find((each) => doc.lengthSeconds / each <= (w - LEFT) / 74) || steps[steps.length - 1];
    const found = [];
    for (let at = Math.ceil(doc.startAt / step) * step; at <= doc.startAt + doc.lengthSeconds; at += step) found.push(at - doc.startAt);
    return found;
  };
  const paint = (row, series, base, w, y) => {
    const points = series.map((s) => [s.second, row.of(s)]);
    const zero = series.map((s) => [s.second, 0]);
    if (row.paint === 'line') return svg('path', { class: `l-${row.tone}`, d: stepLine(points, w, y) });
    if (row.paint === 'area') return svg('path', { class: `f-${row.tone}`, d: stepArea(zero, points, w, y) });
    if (row.paint === 'stack') {
      const low = base.map((value, i) => [series[i].second, value]);
      points.forEach((point, i) => { base[i] += point[1]; });
      return svg('path', { class: `f-${row.tone}`, d: stepArea(low, base.map((value, i) => [series[i].second, value]), w, y) });
    }
    const wide = Math.max(2, Math.min(6, (w - LEFT - RIGHT) / Math.max(1, series.length)));
    const shape = ([second, value]) => (row.paint === 'bars'
      ? svg('rect', { class: `f-${row.tone}`, x: (xOf(second, w) - wide / 2).toFixed(1), width: wide.toFixed(1), y: Math.min(y(value), y(0) - 1).toFixed(1), height: Math.max(1, y(0) - y(value)).toFixed(1) })
      : svg('circle', { class: `f-${row.tone}`, cx: xOf(second, w).toFixed(1), cy: y(value).toFixed(1), r: 2.5 }));
    return svg('g', {}, points.filter(([, value]) => value !== null && value !== undefined).map(shape));
  };
  const spoken = (chart, rows) => {
    const words = rows.map(({ row, run }) => {
      const values = doc.runs[run].series.map(row.of).filter((value) => value !== null && value !== undefined);
      return values.length ? `${row.name}: at most ${chart.show(Math.max(...values))}, at last ${chart.show(values[values.length - 1])}` : `${row.name}: nothing`;
    });
    return `${chart.title} over time. ${words.join('; ')}.`;
  };
  const draw = (chart, w) => {
    const used = doc.runs.map((_, index) => chart.runs[index] || []);
    const rows = used.flatMap((list, run) => list.map((row) => ({ row, run })));
    const top = topOf(chart, used);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const picture = svg('svg', { viewBox: `0 0 ${w} ${HEIGHT}`, height: HEIGHT, role: 'img', 'aria-label': spoken(chart, rows) });
    for (const part of [0, 0.5, 1]) {
      picture.append(svg('line', { class: part ? 'gridline' : 'axis', x1: LEFT, x2: w - RIGHT, y1: y(top * part), y2: y(top * part) }),
        svg('text', { x: LEFT - 6, y: y(top * part) + 4, 'text-anchor': 'end' }, (chart.axis || chart.show)(top * part)));
    }
    for (const second of ticks(w)) {
      const x = xOf(second, w);
      picture.append(svg('line', { class: 'gridline', x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
      if (x > LEFT + 8 && x < w - 26) picture.append(svg('text', { x, y: HEIGHT - 4, 'text-anchor': 'middle' }, clock(second, true)));
    }
    doc.runs.forEach((run, index) => {
      const base = run.series.map(() => 0);
      for (const row of used[index]) picture.append(paint(row, run.series, base, w, y));
    });
    for (const item of items) {
      if (item.kind === 'event') picture.append(svg('line', { class: 'happened', x1: xOf(item.second, w), x2: xOf(item.second, w), y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    const hair = svg('line', { class: 'hair', y1: TOP, y2: HEIGHT - BOTTOM });
    picture.append(hair);
    const toSecond = (event) => {
      const box = picture.getBoundingClientRect();
      point(Math.round(Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT))) * doc.lengthSeconds));
    };
    picture.addEventListener('pointermove', toSecond);
    picture.addEventListener('pointerdown', toSecond);
    const values = [];
    const keys = rows.map(({ row, run }) => {
      const value = el('b');
      values.push({ row, run, value });
      const line = row.paint === 'line';
      return el('span', { class: 'key' }, el('i', { class: `swatch s-${row.tone}${line ? ' stroke' : ''}${row.tone === 'b' || row.tone === 'wanted' ? ' dash' : ''}`, 'aria-hidden': 'true' }), row.name, value);
    });
    drawn.push({ chart, hair, values, w });
    return el('div', { class: 'chart', id: `chart-${chart.id}` }, el('div', { class: 'chart-head' }, el('h2', {}, chart.title), keys), picture);
  };
  const sampleAt = (series, second) => {
    let [low, high] = [0, series.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (series[middle].second <= second) low = middle; else high = middle - 1;
    }
    return series[low];
  };
  const point = (second) => {
    cursor = second;
    const at = second === null ? doc.lengthSeconds : second;
    const valueTexts = [];
    for (const { chart, hair, values, w } of drawn) {
      hair.setAttribute('x1', xOf(at, w));
      hair.setAttribute('x2', xOf(at, w));
      for (const { row, run, value } of values) {
        const sample = sampleAt(doc.runs[run].series, at);
        const found = sample ? row.of(sample) : null;
        value.textContent = found === null || found === undefined ? '–' : chart.show(found);
        valueTexts.push(`${row.name} ${value.textContent}`);
      }
    }
    const range = byId('cursor');
    range.max = doc.lengthSeconds;
    range.value = at;
    range.setAttribute('aria-valuetext', `${clock(at)}: ${valueTexts.join(', ')}`);
    byId('cursor-time').textContent = `${clock(at)} UTC`;
  };

  // Marks: one lane for the events and one for the decisions of each run. Neighbours share a mark.
  const shortly = (list) => {
    const words = list.slice(0, 3).map((item) => `${clock(item.second)} ${KINDS[item.kind]} ${item.words}${item.more ? `, ${item.more}` : ''}`);
    return `${list.length > 1 ? `${list.length} together: ` : ''}${words.join('; ')}${list.length > 3 ? ' and more' : ''}`;
  };
  const lane = (name, list, w) => {
    const groups = [];
    for (const item of list) {
      const x = xOf(item.second, w);
      const last = groups[groups.length - 1];
      if (last && x - last.x < MARK_GAP) last.items.push(item); else groups.push({ x, items: [item] });
    }
    const marks = groups.map(({ x, items: together }, index) => {
      const kind = together.every((item) => item.kind === together[0].kind) ? together[0].kind : together.some((item) => item.kind === 'failed') ? 'failed' : 'mixed';
      const button = el('button', {
        type: 'button', class: `mark ${kind}${together.length > 1 ? ' many' : ''}`, 'aria-label': shortly(together), title: shortly(together),
        tabindex: index ? '-1' : '0', 'data-key': together[0].key, 'aria-pressed': String(together.some((item) => chosen.has(item.key))),
      }, el('span', {}, together.length > 1 ? String(together.length > 99 ? '99+' : together.length) : SIGNS[kind]));
      button.style.left = `${x}px`;
      button.addEventListener('click', () => choose(together));
      return button;
    });
    const row = el('div', { class: 'lane', role: 'toolbar', 'aria-label': name }, marks);
    row.addEventListener('keydown', (event) => {
      const at = marks.indexOf(document.activeElement);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: marks.length - 1 }[event.key];
      if (to === undefined || !marks[to]) return;
      event.preventDefault();
      marks[at].tabIndex = -1;
      marks[to].tabIndex = 0;
      marks[to].focus();
    });
    return [el('div', { class: 'lane-name', 'aria-hidden': 'true' }, name), row];
  };
  const lanes = (w) => {
    const two = doc.runs.length > 1;
    const rows = doc.runs.flatMap((run, index) => {
      const own = items.filter((item) => item.run === index && item.kind !== 'event' && item.second >= 0);
      return lane(`Decisions${two ? ` of ${index ? 'B' : 'A'}` : ''}${own.length ? '' : ': none'}`, own, w);
    });
    const events = items.filter((item) => item.kind === 'event');
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
    byId('lanes').replaceChildren(...rows, ...(events.length ? lane('Events', events, w) : []));
    if (focused) for (const mark of document.querySelectorAll('.mark')) if (mark.dataset.key === focused) mark.focus();
  };
  const choose = (together) => {
    chosen = new Set(together.map((item) => item.key));
    for (const id of ['filter', 'pool', 'search']) byId(id).value = '';
    lives();
    // The address leads here again. It makes no step back.
    location.replace(`#${encodeURIComponent(together[0].key)}`);
    listFrom = Math.max(0, items.indexOf(together[0]) - LIST_MAX / 4);
    point(together[0].second);
    for (const mark of document.querySelectorAll('.mark')) mark.setAttribute('aria-pressed', String(mark.dataset.key === together[0].key));
    list();
    const first = document.querySelector('.item.chosen');
    if (first) {
      byId('decisions').scrollTop += first.getBoundingClientRect().top - byId('decisions').getBoundingClientRect().top;
      // Beside the charts the list is in sight anyway.
      if (matchMedia('(max-width: 1000px)').matches) byId('decisions').parentElement.scrollIntoView({ block: 'start' });
      first.querySelector('summary').focus({ preventScroll: true });
    }
  };

  // The list, and the reasons.
  const why = (item) => {
    if (item.kind === 'event') return el('div', { class: 'why' }, el('p', {}, item.words));
    const d = item.decision;
    const facts = [['Reason', d.reason], ['Pool', d.pool], ['Group', d.group], ['Nodes', sizes(d).trim()], ['Outcome', d.outcome], ['Cause', d.cause], ['Id', d.id]];
    const body = el('div', { class: 'why' }, d.message && el('p', {}, d.message),
      el('dl', {}, facts.filter(([, value]) => value).flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])));
    if (d.podsCount !== undefined) {
      body.append(el('div', {}, `For ${count(d.podsCount, 'pod')}${d.pods.length ? ', such as' : ''}`), el('ul', {}, d.pods.map((pod) => el('li', {}, pod))));
    }
    if (d.considered.length) body.append(table('Other pools that were looked at', ['Pool', 'Verdict', 'Reason', 'In words'], d.considered.map((c) => [c.pool, c.verdict, c.reason, c.message || ''])));
    return body;
  };
  const entry = (item) => {
    const two = doc.runs.length > 1 && item.kind !== 'event';
    const details = el('details', { class: `item ${chosen.has(item.key) ? 'chosen' : ''}`, 'data-key': item.key },
      el('summary', {}, el('time', {}, clock(item.second)), el('span', { class: `sign ${item.kind}`, 'aria-label': KINDS[item.kind], role: 'img' }, SIGNS[item.kind]),
        el('span', { class: 'words' }, two && el('span', { class: item.run ? 'run-name' : '' }, item.run ? 'B ' : 'A '), item.words, item.more && el('small', {}, item.more))));
    const open = () => { if (details.open && details.children.length === 1) details.append(why(item)); };
    details.addEventListener('toggle', open);
    if (chosen.has(item.key)) { details.open = true; open(); }
    return details;
  };
  // What a search looks at, in small letters.
  const named = (item) => {
    const d = item.decision || {};
    return [item.words, d.message, d.cause, ...(d.pods || [])].filter(Boolean).join('\n').toLowerCase();
  };
  const list = () => {
    const filter = byId('filter').value;
    const pool = byId('pool').value;
    const word = byId('search').value.trim().toLowerCase();
    const fits = (item) => (!filter || item.kind === filter) && (!pool || (item.decision && item.decision.pool === pool)) && (!word || named(item).includes(word));
    const fitting = items.filter(fits);
    const from = filter || pool || word ? 0 : Math.min(listFrom, Math.max(0, fitting.length - LIST_MAX));
    const shown = fitting.slice(from, from + LIST_MAX);
    const decided = items.filter((item) => item.kind !== 'event').length;
    byId('decisions-count').textContent = number(decided);
    const opened = new Set([...document.querySelectorAll('.item[open]')].map((details) => details.dataset.key));
    const entries = shown.map(entry);
    if (doc.kind === 'Live') for (const details of entries) if (opened.has(details.dataset.key)) details.open = true;
    const rest = fitting.length - shown.length;
    byId('decisions').replaceChildren(...entries, ...(rest ? [el('p', { class: 'empty' }, `${count(rest, 'more')} not shown here: choose a mark near their time.`)] : []),
      ...(fitting.length ? [] : [el('p', { class: 'empty' }, 'Nothing of this kind was decided.')]));
  };

  // Nodes one by one: from the decision to the end, darker with more pods.
  const lifeWords = (life) => {
    const at = (name, second) => (second === null || second === undefined ? '' : `, ${name} ${clock(second)}`);
    const most = Math.max(0, ...life.pods.map(([, pods]) => pods));
    return `${life.name}, ${life.pool ? `pool ${life.pool}` : 'of no pool'}${at('asked for', life.asked)}${life.joined === null ? ', there before' : at('joined', life.joined)}`
      + `${life.joined === null ? '' : at('ready', life.ready)}${at('leaving since', life.leaving)}${at('gone', life.gone)}, at most ${count(most, 'pod')}`;
  };
  const lifeBar = (life, most, w) => {
    const bar = (from, to, tone, opacity) => svg('rect', {
      class: `f-${tone}`, x: xOf(from, w).toFixed(1), width: Math.max(1, xOf(to, w) - xOf(from, w)).toFixed(1), y: 2, height: 8, opacity,
    });
    const end = life.gone === null ? doc.lengthSeconds : life.gone;
    const joined = life.joined === null ? 0 : life.joined;
    const ready = life.ready === null ? end : life.ready;
    const leaving = life.leaving === null ? end : Math.max(ready, life.leaving);
    const parts = [];
    if (life.asked !== null && life.asked < joined) parts.push(bar(Math.max(0, life.asked), joined, 'asked'));
    if (joined < ready) parts.push(bar(joined, Math.min(ready, end), 'starting'));
    let [from, pods] = [ready, 0];
    for (const [second, next] of [...life.pods, [leaving, 0]]) {
      const to = Math.min(Math.max(second, from), leaving);
      if (from < to) parts.push(bar(from, to, pods ? 'a' : 'empty', pods ? (0.35 + 0.65 * pods / most).toFixed(2) : null));
      if (second <= leaving) [from, pods] = [to, next];
    }
    if (leaving < end) parts.push(bar(leaving, end, 'leaving'));
    return svg('svg', { viewBox: `0 0 ${w} 12`, height: 12, preserveAspectRatio: 'none', role: 'img', 'aria-label': lifeWords(life) }, svg('title', {}, lifeWords(life)), parts);
  };
  const LIFE_KEY = [['asked', 'asked for'], ['starting', 'not ready'], ['empty', 'no pods'], ['a', 'pods, darker with more'], ['leaving', 'leaving']];
  const lives = () => {
    const run = doc.runs[0];
    const pool = byId('pool').value;
    const shown = run.nodes.filter((life) => !pool || life.pool === pool);
    byId('lives').hidden = run.nodes.length === 0;
    if (byId('lives').hidden) return;
    const scrolled = byId('lives').querySelector('.scroll-down');
    const place = scrolled ? scrolled.scrollTop : 0;
    const w = width();
    const most = Math.max(1, ...run.nodes.flatMap((life) => life.pods.map(([, pods]) => pods)));
    const keys = LIFE_KEY.map(([tone, words]) => el('span', { class: 'key' }, el('i', { class: `swatch s-${tone}`, 'aria-hidden': 'true' }), words));
    const rows = shown.map((life) => el('li', {}, el('span', { class: 'life-name', 'aria-hidden': 'true' }, life.name), lifeBar(life, most, w)));
    const omitted = run.nodesOmitted ? el('p', { class: 'empty' }, `${count(run.nodesOmitted, 'more node')} not shown one by one.`) : null;
    const box = el('div', { class: 'scroll-down', tabindex: '0', role: 'region', 'aria-label': 'Nodes one by one, in the order in which they came' },
      el('ul', { class: 'lives' }, rows));
    byId('lives').replaceChildren(el('div', { class: 'chart-head' }, el('h2', {}, `Nodes one by one${doc.runs.length > 1 ? ', of A' : ''}`), keys), box,
      ...(omitted ? [omitted] : []), ...(shown.length ? [] : [el('p', { class: 'empty' }, 'None of this pool.')]));
    box.scrollTop = place;
  };
  const pools = () => {
    const names = [...new Set(doc.runs.flatMap((run) => [...run.pools.map((pool) => pool.name), ...run.decisions.map((d) => d.pool), ...run.nodes.map((life) => life.pool)]))];
    const wanted = names.filter(Boolean).sort();
    const select = byId('pool');
    if (wanted.join('\n') === [...select.options].slice(1).map((option) => option.value).join('\n')) return;
    const kept = select.value;
    select.replaceChildren(select.options[0], ...wanted.map((name) => el('option', { value: name }, name)));
    select.value = wanted.includes(kept) ? kept : '';
  };
  // A link to a decision opens it.
  const follow = () => {
    const key = decodeURIComponent(location.hash.slice(1));
    const item = items.find((each) => each.key === key);
    if (item && !chosen.has(key)) choose([item]);
  };

  // Tables.
  const table = (title, heads, rows, none, numeric = []) => el('div', { class: 'table-inside' }, el('div', {}, el('strong', {}, title)),
    rows.length === 0 ? el('p', { class: 'empty' }, none || 'None.')
      : el('div', { class: 'scroll' }, el('table', { class: 'rows' },
        el('thead', {}, el('tr', {}, heads.map((name, i) => el('th', { scope: 'col', class: numeric.includes(i) ? 'n' : null }, name)))),
        el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell, i) => el('td', { 'data-head': heads[i], class: numeric.includes(i) ? 'n' : null }, cell))))))));
  const tables = () => {
    const two = doc.runs.length > 1;
    const rows = doc.runs.flatMap((run, index) => run.pools.map((pool) => [
      ...(two ? [index ? 'B' : 'A'] : []), pool.name, pool.pricePerHour || 'unknown', number(pool.nodes), number(pool.nodesMax),
      number(pool.nodeHours, 1), pool.cost === null ? 'unknown' : number(pool.cost, 2)]));
    const heads = [...(two ? ['Run'] : []), 'Pool', 'Price per hour', 'Nodes at the end', 'Most nodes', 'Node-hours', 'Cost'];
    const shift = two ? 2 : 1;
    const shown = doc.kind === 'Live' ? [] : [table('Pools', heads, rows, 'No pools.', heads.map((_, i) => i).filter((i) => i >= shift))];
    if (doc.live) for (const each of doc.live.tables) shown.push(table(each.title, each.columns, each.rows, each.none));
    byId('tables').replaceChildren(...shown.map((each) => el('div', { class: 'table' }, each)));
  };

  const redraw = () => {
    const w = width();
    drawn = [];
    lanes(w);
    byId('charts').replaceChildren(...CHARTS
      .filter((chart) => doc.runs.some((run, index) => (chart.runs[index] || []).some((row) => run.series.some((s) => row.of(s) !== null && row.of(s) !== undefined))))
      .map((chart) => draw(chart, w)));
    lives();
    point(cursor === null ? null : Math.min(cursor, doc.lengthSeconds));
  };
  const show = () => {
    gather();
    pools();
    head();
    figures();
    redraw();
    list();
    tables();
    follow();
  };

  byId('cursor').addEventListener('input', (event) => point(Number(event.target.value)));
  for (const id of ['filter', 'pool', 'search']) {
    byId(id).addEventListener(id === 'search' ? 'input' : 'change', () => { listFrom = 0; list(); if (id === 'pool') lives(); });
  }
  addEventListener('hashchange', () => { if (doc) follow(); });
  let wide = 0;
  new ResizeObserver(() => {
    if (doc && width() !== wide) { wide = width(); redraw(); }
  }).observe(byId('charts'));

  // A click is a press and a release on the same element: for as long as one takes, nothing is drawn anew. A release may
  // get lost, in a context menu for one.
  let pressedUntil = 0;
  addEventListener('pointerdown', () => { pressedUntil = Date.now() + PRESS_MAX_MS; });
  for (const end of ['click', 'pointercancel']) addEventListener(end, () => { pressedUntil = 0; });
  const released = async () => {
    while (Date.now() < pressedUntil) await new Promise((done) => setTimeout(done, 20));
  };

  // A live page asks again and again, and says since when nobody answers.
  let answered = '';
  const ask = async () => {
    try {
      if (!document.hidden || !doc) {
        const answer = await fetch(source, { cache: 'no-store' });
        if (!answer.ok) throw new Error(String(answer.status));
        const fresh = await answer.json();
        await released();
        const same = doc && JSON.stringify(fresh.runs.map((run) => run.decisions)) === JSON.stringify(doc.runs.map((run) => run.decisions));
        const first = !doc;
        doc = fresh;
        answered = new Date().toISOString().slice(11, 19);
        gather();
        pools();
        head();
        figures();
        redraw();
        tables();
        if (!same) list();
        if (first) follow();
        byId('trouble').hidden = true;
      }
    } catch (error) {
      byId('trouble').textContent = answered ? `No answer since ${answered} UTC; what is shown is from then.` : 'The operator does not answer yet.';
      byId('trouble').hidden = false;
    }
    setTimeout(ask, POLL_MS);
  };
  if (source) ask(); else show();
})();
