// The queries of a run: found, filtered, compared. No library, no request, no markup from text:
// every foreign text is set by textContent, and the page's policy forbids the rest.
// The view is in the fragment of the address, which is the only state: whatever is clicked changes
// the fragment, and `show` draws what it says.
"use strict";
(() => {
  const ROWS_AT_ONCE = 200;
  const MOST_WORDS = 1500; // of an answer that is compared word by word
  const NO_SYSTEM = "none";

  const $ = (id) => document.getElementById(id);

  // ---- elements -------------------------------------------------------------------------------

  /** Make an element: h("p", {class: "soft"}, "text", child, ...); null children are left out. */
  function h(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === true) made.setAttribute(name, "");
      else if (value !== null && value !== undefined && value !== false) {
        made.setAttribute(name, value);
      }
    }
    made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return made;
  }

  // What moves the cursor, turns the direction of a line or has no width is shown as an escape.
  // Joiners stay: Persian, Hindi and families of emoji need them.
  const HIDDEN =
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
  const visible = (text) =>
    String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

  /** A text of its own direction, which turns nothing around it. */
  const bdi = (text) => h("bdi", null, visible(text));

  /** A cause as people say it: not_retrieved is "not retrieved". */
  const spaced = (cause) => visible(cause).replaceAll("_", " ");

  function number(value, signed) {
    if (value === null || value === undefined) return "-";
    const size = Math.abs(value);
    const text =
      size !== 0 && (size < 1e-3 || size >= 1e6)
        ? value.toExponential(2)
        : size >= 100
          ? value.toFixed(0)
          : value.toPrecision(3);
    return (signed && value > 0 ? "+" : "") + text;
  }

  // ---- tables: sorted, filtered, columns chosen, copied ----------------------------------------

  const rowsOfTable = (table) => [...table.tBodies[0].rows];
  const headOf = (table) => [...table.tHead.rows[0].cells];
  const valueOf = (cell) => ("v" in cell.dataset ? Number(cell.dataset.v) : null);

  /** The first text of a cell: its value and mark, without bars, intervals and remarks. */
  const plain = (cell) => [...cell.childNodes].filter((n) => n.nodeType === 3 || n.tagName === "BUTTON")
    .map((n) => n.textContent.trim()).filter(Boolean).join(" ");

  function sortable(table) {
    table.given = rowsOfTable(table);
    headOf(table).forEach((th, column) => {
      const button = h("button", { type: "button" }, ...th.childNodes);
      th.replaceChildren(button);
      button.addEventListener("click", () => sortBy(table, th, column));
    });
  }

  /** Falling first, then rising, then as given; what has no value is last. */
  function sortBy(table, th, column) {
    const falling = th.getAttribute("aria-sort") === null;
    const rising = th.getAttribute("aria-sort") === "descending";
    for (const other of headOf(table)) other.removeAttribute("aria-sort");
    let rows = [...table.given];
    if (falling || rising) {
      th.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const key = (row) => valueOf(row.cells[column]) ?? (column ? null : plain(row.cells[0]));
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        const order = typeof x === "string" ? y.localeCompare(x) : y - x;
        return rising ? -order : order;
      });
    }
    table.tBodies[0].append(...rows);
  }

  function copied(table, form) {
    const shown = (row) => [...row.cells].filter((cell) => !cell.hidden).map(plain);
    const lines = [table.tHead.rows[0], ...rowsOfTable(table).filter((row) => !row.hidden)].map(shown);
    if (form === "CSV") {
      // a leading sign would be a formula in a spreadsheet
      const quoted = (text) => `"${(/^[=+@-](?!\d|$)/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
      return lines.map((line) => line.map(quoted).join(",")).join("\r\n");
    }
    if (form === "Markdown") {
      const cells = (line) => `| ${line.map((text) => text.replace(/([\\|`*_<>[\]])/g, "\\$1")).join(" | ")} |`;
      return [cells(lines[0]), `|${lines[0].map((_, i) => (i ? "--:" : ":--")).join("|")}|`, ...lines.slice(1).map(cells)].join("\n");
    }
    const TEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" };
    const tex = (text) => text.replace(/[\\&%$#_{}~^]/g, (c) => TEX[c] || `\\${c}`);
    const body = lines.map((line) => `${line.map(tex).join(" & ")} \\\\`);
    return [`\\begin{tabular}{l${"r".repeat(lines[0].length - 1)}}`, "\\hline", body[0], "\\hline", ...body.slice(1), "\\hline", "\\end{tabular}"].join("\n");
  }

  function tools(table) {
    const filter = h("input", { type: "search" });
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().trim();
      for (const row of rowsOfTable(table)) row.hidden = !row.cells[0].textContent.toLowerCase().includes(words);
    });
    const boxes = headOf(table).slice(1).map((th, i) => {
      const box = h("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        for (const row of table.rows) row.cells[i + 1].hidden = !box.checked;
      });
      return h("label", null, box, ` ${plain(th)}`);
    });
    const said = h("span", { role: "status" });
    const buttons = ["CSV", "Markdown", "LaTeX"].map((form) => {
      const button = h("button", { type: "button" }, form);
      button.addEventListener("click", async () => {
        const text = copied(table, form);
        try {
          await navigator.clipboard.writeText(text);
          said.textContent = `copied as ${form}`;
        } catch {
          // not allowed here: the reader can copy it from a field
          const field = h("textarea", { readonly: true, "aria-label": `the table as ${form}` });
          field.value = text;
          said.replaceChildren(field);
          field.select();
        }
      });
      return button;
    });
    return h("div", { class: "tools" },
      h("label", null, "systems ", filter),
      h("details", null, h("summary", null, "columns"), h("fieldset", null, h("legend", null, "shown"), boxes)),
      h("span", null, "copy as ", buttons.flatMap((button) => [button, " "])), said);
  }

  for (const sheet of document.querySelectorAll(".sheet")) {
    const table = sheet.querySelector("table");
    if (!table.querySelector("[data-v]")) continue;
    sortable(table);
    sheet.before(tools(table));
  }

  // ---- data -----------------------------------------------------------------------------------

  let index = null;

  /** Read the data of the queries, which stand behind this script: the page is used while they come in. */
  async function unpack() {
    if (document.readyState === "loading") {
      await new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));
    }
    const text = atob($("data").textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    index = await new Response(stream).json();
    index.rowOf = new Map(index.queries.map(({ id }, row) => [id, row]));
    index.system = new Map(index.systems.map((system) => [system.name, system]));
    index.stop = new Set(index.stopwords);
    index.haystack = index.queries.map(({ id, text }) => `${id}\n${text}`.toLowerCase());
  }

  const brief = (text) => (text.length > 300 ? `${text.slice(0, 300)}…` : text);

  /** [id, title, text] of a passage by its number, or by its id, where the run has no text of it. */
  const passageAt = (k) => (typeof k === "string" ? [k, "", null] : index.passages[k]);

  /** The value of a system by a score; a pair has those of its retriever, too. */
  function column(system, score) {
    const own = (index.values[system] || {})[score];
    if (own) return own;
    const known = index.system.get(system);
    return (known && known.retriever && (index.values[known.retriever] || {})[score]) || null;
  }

  const valueAt = (system, score, row) => (column(system, score) || [])[row] ?? null;

  function meanOf(system, score) {
    const known = (column(system, score) || []).filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  }

  const scoreOf = (name) => index.scores.find((score) => score.name === name);

  const entryAt = (system, row) => index.queries[row].systems[system] || {};

  /** Why a query failed for a system, by any score; null where nothing did. */
  const failureAt = (system, row) => entryAt(system, row).failed ?? null;

  const causeAt = (system, row) => entryAt(system, row).cause ?? null;

  // ---- the view -------------------------------------------------------------------------------

  const SORTS = {
    differ: "how far A and B differ",
    better: "A above B",
    worse: "A below B",
    low: "A lowest first",
    high: "A highest first",
    given: "order of the data",
  };

  const FILTERS = ["find", "cause", "slice", "min", "max", "failed"];

  /** The fragment as an object, with what it leaves out filled in. */
  function viewOf(fragment) {
    const given = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
    const view = { ...given };
    if (!scoreOf(view.score)) view.score = index.scores.length ? index.scores[0].name : "";
    const answering = index.systems.filter((system) => system.answers);
    const usual = (answering.length ? answering : index.systems).filter(
      (system) => system.role !== "control",
    );
    const bases = usual.filter((system) => !system.baseline);
    if (!index.system.has(view.b) && view.b !== NO_SYSTEM) {
      view.b = (bases[0] || usual[0] || { name: NO_SYSTEM }).name;
    }
    if (!index.system.has(view.a)) view.a = best(usual, view.score, view.b);
    if (view.a === view.b) view.b = NO_SYSTEM;
    if (!(view.sort in SORTS)) view.sort = view.b === NO_SYSTEM ? "low" : "differ";
    return view;
  }

  function best(systems, score, but) {
    const lower = (scoreOf(score) || {}).lower;
    let found = null;
    for (const { name } of systems) {
      const mean = meanOf(name, score);
      if (name === but || mean === null) continue;
      if (found === null || (lower ? mean < found[1] : mean > found[1])) found = [name, mean];
    }
    return found ? found[0] : (systems.find(({ name }) => name !== but) || systems[0]).name;
  }

  /** The fragment of the present view with some changes; null or "" takes a key away. */
  function link(changes) {
    const now = new URLSearchParams(location.hash.slice(1));
    now.delete("queries");
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === "") now.delete(key);
      else now.set(key, value);
    }
    const rest = now.toString();
    return `#queries${rest ? `&${rest}` : ""}`;
  }

  function difference(view, row) {
    const a = valueAt(view.a, view.score, row);
    const b = view.b === NO_SYSTEM ? null : valueAt(view.b, view.score, row);
    return a === null || b === null ? null : a - b;
  }

  function rowsOf(view) {
    const words = (view.find || "").toLowerCase().trim();
    const deep = words && view.deep !== "0" ? passagesWith(words) : null;
    const least = view.min ? Number(view.min) : -Infinity;
    const most = view.max ? Number(view.max) : Infinity;
    const fact = view.slice ? JSON.parse(view.slice) : null;
    const rows = [];
    for (let row = 0; row < index.queries.length; row += 1) {
      if (words && !index.haystack[row].includes(words) && !(deep && mentions(index.queries[row], words, deep))) continue;
      if (view.cause && causeAt(view.a, row) !== view.cause) continue;
      if (view.failed && failureAt(view.a, row) === null &&
          (view.b === NO_SYSTEM || failureAt(view.b, row) === null)) continue;
      if (fact) {
        const values = index.facts[fact[0]];
        if (!values || !values[row].includes(fact[1])) continue;
      }
      if (view.min || view.max) {
        const value = valueAt(view.a, view.score, row);
        if (value === null || value < least || value > most) continue;
      }
      rows.push(row);
    }
    return sorted(rows, view);
  }

  function sorted(rows, view) {
    const value = (row) => valueAt(view.a, view.score, row);
    const keys = {
      differ: (row) => negated(Math.abs, difference(view, row)),
      better: (row) => negated(Number, difference(view, row)),
      worse: (row) => difference(view, row),
      low: value,
      high: (row) => negated(Number, value(row)),
    };
    const key = keys[view.sort];
    if (!key) return rows;
    const known = new Map(rows.map((row) => [row, key(row)]));
    // those without a value come last, and keep the order of the data
    return rows.sort((a, b) => {
      const [x, y] = [known.get(a), known.get(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return x - y || a - b;
    });
  }

  const negated = (f, value) => (value === null ? null : -f(value));

  // ---- search in answers and passages ---------------------------------------------------------

  /** The numbers of the passages in which a text stands. */
  const passagesWith = (words) => new Set(
    index.passages.flatMap((passage, k) => (passage.join("\n").toLowerCase().includes(words) ? [k] : [])));

  function mentions(query, words, passages) {
    const has = (text) => Boolean(text) && text.toLowerCase().includes(words);
    if (has(query.text) || query.gold.some(has)) return true;
    const told = (k) => (typeof k === "string" ? has(k) : passages.has(k));
    const said = ({ why, claims }) => has(why) || (claims || []).some((claim) => has(claim.text));
    if ([...(query.pairs || []), ...(query.graded || []).map((own) => own[1])].some(said)) return true;
    if (query.hits.some((hits) => hits.some((hit) => told(hit[0])))) return true;
    for (const { answers, verdicts } of Object.values(query.systems)) {
      for (const answer of answers || []) {
        if (has(answer.text) || has(answer.detail)) return true;
        if ((answer.read || []).some(told)) return true;
      }
      if ((verdicts || []).some(said)) return true;
    }
    return false;
  }

  // ---- words ----------------------------------------------------------------------------------

  const WORD = /[\p{L}\p{N}]+/gu;

  /** A word without its most usual English endings: enough to see what matches. */
  function stem(word) {
    const low = word.toLowerCase();
    if (low.length < 4 || /\d/.test(low)) return low;
    for (const [ending, rest] of [["ies", "y"], ["sses", "ss"], ["ing", ""], ["ed", ""], ["es", ""], ["s", ""]]) {
      if (low.endsWith(ending) && low.length - ending.length >= 3 && !low.endsWith("ss")) {
        return low.slice(0, -ending.length) + rest;
      }
    }
    return low;
  }

  const stems = (text) =>
    new Set([...text.matchAll(WORD)].map((m) => m[0]).filter((w) => !index.stop.has(w.toLowerCase())).map(stem));

  /** A text with some of its words marked; `classOf` gives a word's class, or null. */
  function marked(text, classOf) {
    const made = document.createDocumentFragment();
    const shown = visible(text);
    let end = 0;
    let place = 0;
    for (const match of shown.matchAll(WORD)) {
      const name = classOf(match[0], place);
      place += 1;
      if (name === null) continue;
      made.append(shown.slice(end, match.index), h("mark", { class: name }, match[0]));
      end = match.index + match[0].length;
    }
    made.append(shown.slice(end));
    return made;
  }

  /** The places of the words of one text that another lacks, by the longest common sequence. */
  function onlyIn(text, other) {
    const words = (t) => [...visible(t).matchAll(WORD)].map((m) => m[0].toLowerCase());
    const [a, b] = [words(text), words(other)];
    if (a.length > MOST_WORDS || b.length > MOST_WORDS) return null;
    const width = b.length + 1;
    const length = new Uint16Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        length[i * width + j] =
          a[i] === b[j]
            ? length[(i + 1) * width + j + 1] + 1
            : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
    const own = new Set();
    let [i, j] = [0, 0];
    while (i < a.length) {
      if (j < b.length && a[i] === b[j]) [i, j] = [i + 1, j + 1];
      else if (j < b.length && length[i * width + j + 1] >= length[(i + 1) * width + j]) j += 1;
      else own.add(i++);
    }
    return own;
  }

  // ---- claims ---------------------------------------------------------------------------------

  /** The claims of an answer, and of its gold answer, over all rubrics: each claim once. */
  function claimsOf(verdicts) {
    const found = new Map();
    for (const verdict of verdicts) {
      if (verdict.sample) continue;
      const counts = { true: 0, false: 0 };
      for (const { text, gold = false, ruling = null, supports = [], against = [], other = null } of verdict.claims || []) {
        counts[gold] += 1;
        const key = JSON.stringify([gold, text]);
        const known = found.get(key);
        if (!known) found.set(key, { number: counts[gold], text, gold, ruling, supports, against, other });
        else {
          if (known.ruling === null) Object.assign(known, { ruling, supports, against });
          known.other ??= other;
        }
      }
    }
    return [...found.values()];
  }

  /** The sentence of a passage that shares most words with a claim. */
  function closest(text, claim) {
    const wanted = stems(claim);
    let found = ["", 0];
    for (const sentence of text.split(/(?<=[.!?]\s+|[。！？])/u)) {
      const shared = [...stems(sentence)].filter((word) => wanted.has(word)).length;
      if (shared > found[1]) found = [sentence, shared];
    }
    return found[0];
  }

  // ---- the list -------------------------------------------------------------------------------

  let listed = { key: "", rows: [], shown: 0 };

  function drawList(view) {
    const { q, ...others } = view;
    const key = JSON.stringify(others);
    if (key !== listed.key) {
      listed = { key, rows: rowsOf(view), shown: 0 };
      $("list").querySelector("ol").replaceChildren();
      drawMore(view);
      const found = listed.rows.length;
      const filtered = FILTERS.some((name) => view[name]);
      const all = h("a", { href: link(Object.fromEntries(["q", ...FILTERS].map((name) => [name, null]))) }, "show all");
      $("status").replaceChildren(`${found} of ${index.queries.length} queries`, ...(filtered ? [" · ", all] : []));
    }
    for (const other of $("list").querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    const current = [...$("list").querySelectorAll("a")].find((a) => a.dataset.row === String(index.rowOf.get(q)));
    if (current) {
      current.setAttribute("aria-current", "true");
      // the list alone: scrollIntoView would move the page as well
      const [box, own] = [$("list").getBoundingClientRect(), current.getBoundingClientRect()];
      if (own.top < box.top || own.bottom > box.bottom) $("list").scrollTop += own.top - box.top - box.height / 3;
    }
  }

  function drawMore(view) {
    const next = listed.rows.slice(listed.shown, listed.shown + ROWS_AT_ONCE);
    listed.shown += next.length;
    $("list").querySelector("ol").append(...next.map((row) => listRow(view, row)));
    $("more").hidden = listed.shown >= listed.rows.length;
  }

  function listRow(view, row) {
    const values = [valueAt(view.a, view.score, row)];
    if (view.b !== NO_SYSTEM) values.push(valueAt(view.b, view.score, row));
    const change = difference(view, row);
    const lower = (scoreOf(view.score) || {}).lower;
    const sign = change === null || change === 0 ? "" : (change > 0) !== Boolean(lower) ? "up" : "down";
    const a = h("a", { href: link({ q: index.queries[row].id }), "data-row": row },
      h("b", null, bdi(index.queries[row].id)), " ", h("span", { class: "text", dir: "auto" }, visible(brief(index.queries[row].text))),
      h("span", { class: "values" }, values.map((value) => number(value)).join(" · "),
        change === null ? null : h("span", { class: `change ${sign}` }, ` ${number(change, true)}`)));
    return h("li", null, a);
  }

  // ---- one query ------------------------------------------------------------------------------

  function drawQuery(view) {
    const row = index.rowOf.get(view.q);
    if (row === undefined) {
      const said = view.q === undefined ? "No query is found: see the filters above."
        : `No query of this page is called ${visible(view.q)}.`;
      $("detail").replaceChildren(h("p", { class: "soft" }, said));
      return;
    }
    const query = index.queries[row];
    const shown = [view.a, view.b].filter((name) => name !== NO_SYSTEM);
    const grades = new Map((query.graded || []).map(([k, verdict]) => [passageAt(k)[0], { ...verdict, k }]));
    const pieces = [
      heading(row, query),
      goldOf(query, grades),
      pairsOf(view, query),
      h("div", { class: "sides" }, shown.map((name, i) => sideOf(view, row, query, grades, name, shown[1 - i], "AB"[i]))),
      gradedElsewhere(query, grades, shown),
      ...scoreTables(view, row),
    ];
    $("detail").replaceChildren(...pieces.filter(Boolean));
  }

  function heading(row, { id, text }) {
    const facts = Object.entries(index.facts).flatMap(([field, values]) => values[row].map((value) =>
      h("a", { class: "chip", href: link({ slice: JSON.stringify([field, value]) }) }, bdi(`${field}: ${value}`))));
    return h("header", null, h("p", { class: "soft" }, bdi(id), " ", facts), h("h2", { id: "asked", dir: "auto" }, visible(text)));
  }

  function goldOf(query, grades) {
    const gold = query.gold.map((text) => h("p", { class: "gold", dir: "auto" }, visible(text)));
    const rows = query.relevant.map(([k, grade, ranks]) => {
      const [id, title] = passageAt(k);
      const by = grades.get(id);
      return h("tr", null, h("th", { scope: "row" }, bdi(title || id)),
        h("td", null, String(grade), by ? h("small", null, visible(`by ${by.judge}`)) : null),
        ranks.map((rank) => h("td", { class: rank ? null : "missing" }, rank ? `#${rank}` : "not found")));
    });
    const heads = ["passage", "grade", ...index.rankings];
    return h("section", { class: "sides" },
      h("div", null, h("h3", null, gold.length > 1 ? "Gold answers" : "Gold answer"),
        gold.length ? gold : h("p", { class: "soft" }, "none")),
      rows.length
        ? table("where each ranking has what is relevant", heads, rows)
        : h("p", { class: "soft" }, "Nothing is judged relevant."));
  }

  function table(caption, heads, rows) {
    return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
      h("table", null, h("caption", null, caption),
        h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col" }, bdi(text))))),
        h("tbody", null, rows)));
  }

  /** All systems by all scores for this query, those of rankings first; a system's name puts it beside A. */
  function scoreTables(view, row) {
    const own = ({ name }, score) => (index.values[name] || {})[score.name]?.[row] ?? null;
    const ranked = (system) => index.scores.some((score) => score.kind === "retrieval" && score.name in (index.values[system.name] || {}));
    return ["rankings", "answers"].map((what) => {
      const systems = index.systems.filter((system) => ranked(system) === (what === "rankings"));
      const scores = index.scores.filter((score) => systems.some((system) => own(system, score) !== null));
      return systems.length ? scoreTable(view, row, what, systems, scores) : null;
    }).filter(Boolean);
  }

  function scoreTable(view, row, what, systems, scores) {
    const rows = systems.map(({ name }) => {
      const letter = name === view.a ? "A" : name === view.b ? "B" : "";
      const choose = letter ? bdi(name) : h("a", { href: link({ b: name }) }, bdi(name));
      const failed = failureAt(name, row);
      return h("tr", null,
        h("th", { scope: "row" }, letter ? [h("b", { class: `letter ${letter}` }, letter), " "] : null, choose,
          failed === null ? null : h("small", { class: "fail" }, `failed: ${visible(failed)}`),
          causeAt(name, row) === null ? null : h("small", null, spaced(causeAt(name, row)))),
        scores.map((score) => h("td", null, number((index.values[name] || {})[score.name]?.[row]))));
    });
    return table(`${what} on this query; choose a system to put it in the place of B`, ["system", ...scores.map((s) => s.name)], rows);
  }

  function sideOf(view, row, query, grades, name, other, letter) {
    const { answers = [], verdicts = [], why = "", ms = null } = query.systems[name] || {};
    const others = (query.systems[other] || {}).answers || [];
    const failed = failureAt(name, row);
    const cause = causeAt(name, row);
    const value = number(valueAt(name, view.score, row));
    const claims = claimsOf(verdicts);
    return h("section", { class: "side", "aria-label": `${letter}: ${visible(name)}` },
      h("h3", null, h("b", { class: "letter" }, letter), " ", bdi(name), " ", h("span", { class: "soft" }, `${view.score} ${value}`)),
      cause === null ? null : h("p", { class: cause === "right" ? "cause well" : "cause" }, h("b", null, spaced(cause)), visible(`: ${index.causeWords[cause]}`),
        index.causeChanges[cause] ? h("span", { class: "change" }, h("b", null, "What to change:"), ` ${index.causeChanges[cause]}`) : null, why ? h("small", null, visible(why)) : null),
      failed === null ? null : h("p", { class: "fail" }, `failed: ${visible(failed)}`),
      answers.map((answer, i) => answerOf(answer, others[i], query, other, answers.length > 1 ? i + 1 : null)),
      claimList("Claims", claims.filter((claim) => !claim.gold), "gold answer"),
      claimsLeftOut(verdicts),
      claimList("Claims of the gold answer", claims.filter((claim) => claim.gold), "answer"),
      verdictList(verdicts, query, answers),
      ms === null ? null : costLine({ ms }, "to retrieve"),
      hitsOf(query, grades, name, other, claims, answers, letter === "A" ? "B" : "A"),
      promptOf(answers[0]),
    );
  }

  function costLine(answer, what = "") {
    const parts = [];
    if (answer.ms !== null && answer.ms !== undefined) parts.push(`${number(answer.ms)} ms ${what}`.trim());
    const [sent, received] = answer.tokens || [];
    if (sent || received) parts.push(`${sent ?? "?"} tokens in, ${received ?? "?"} out`);
    if (answer.usd) parts.push(`${number(answer.usd)} USD`);
    return parts.length ? h("p", { class: "soft cost" }, parts.join(" · ")) : null;
  }

  function answerOf(answer, compared, query, other, sample) {
    const head = h("h4", null, sample ? `Answer ${sample}` : "Answer");
    if (answer.cause) {
      return h("div", { class: "answer" }, head, h("p", { class: "fail" }, `no answer: ${visible(answer.cause)}`),
        h("pre", null, visible(answer.detail || "")));
    }
    if (answer.text === null || answer.text === undefined) return h("div", null, head, h("p", { class: "soft" }, "none"));
    const gold = stems(query.gold.join(" "));
    const own = compared && compared.text ? onlyIn(answer.text, compared.text) : null;
    const classOf = (word, place) => {
      const names = [];
      if (own && own.has(place)) names.push("own");
      if (!index.stop.has(word.toLowerCase()) && gold.has(stem(word))) names.push("gold-word");
      return names.length ? names.join(" ") : null;
    };
    const key = [own && own.size ? `dotted: not in the answer of ${other}` : "", query.gold.length ? "bold: in a gold answer" : ""];
    return h("div", { class: "answer" }, head,
      h("p", { class: "said", dir: "auto" }, answer.text ? marked(answer.text, classOf) : h("i", null, "empty")),
      h("p", { class: "soft key" }, visible(key.filter(Boolean).join("; "))),
      answer.queries ? h("p", { class: "soft" }, `searched for: ${visible(answer.queries.join(" | "))}`) : null,
      costLine(answer));
  }

  /** What passages, and the answer on the other side, say of each claim. */
  function claimList(title, claims, other) {
    if (!claims.length) return null;
    const said = (ruling, who) => h("span", { class: `verdict ${ruling === "supported" ? "pass" : "fail"}` },
      `${ruling === "not_mentioned" ? "not supported" : ruling} by ${who}`);
    const passages = ({ ruling, supports, against }) => {
      const numbers = ruling === "contradicted" ? against : supports;
      return numbers.length ? `passage ${numbers.join(", ")}` : ruling === "supported" ? "passages" : "any passage";
    };
    return h("div", null, h("h4", null, title), h("ol", { class: "claims" }, claims.map((claim) =>
      h("li", { dir: "auto", value: claim.number }, visible(claim.text), " ",
        claim.ruling === null ? null : said(claim.ruling, passages(claim)),
        claim.other === null ? null : [" ", said(claim.other, `the ${other}`)]))));
  }

  /** The page has the first claims of a verdict; where the others are is said. */
  function claimsLeftOut(verdicts) {
    const cut = verdicts.filter(({ more, sample }) => more && !sample);
    return cut.length ? h("p", { class: "soft" }, visible(cut.map(({ more, claims, rubric }) =>
      `${rubric}: the first ${claims.length} of ${claims.length + more} claims; all are in judgements/ of the run folder`).join("; "))) : null;
  }

  function verdictList(verdicts, query, answers) {
    if (!verdicts.length) return null;
    return h("div", null, h("h4", null, "Judge"), verdicts.map((verdict) => {
      const sample = verdict.sample === undefined ? "" : `, answer ${verdict.sample + 1}`;
      const level = verdict.level === undefined ? "" : `, level ${verdict.level}`;
      const value = verdict.cause ? missing(verdict) : h("b", null, number(verdict.score));
      const answer = answers[verdict.sample || 0] || {};
      return judged(verdict, [`${visible(verdict.rubric)} `, value, h("span", { class: "soft" }, visible(`${level}${sample} · ${verdict.judge}`))],
        textsOf(query, [answer.text], (answer.read || []).map(passageAt)));
    }));
  }

  const missing = (verdict) => [verdict.failed ? null : "does not apply: ", h("b", { class: verdict.failed ? "fail" : null }, spaced(verdict.cause))];

  /** One verdict: what it says, and behind it the reason, what the judge was sent and what it replied. */
  function judged(verdict, said, texts) {
    const spread = verdict.samples ? `, asked ${verdict.samples.length} times: ${verdict.samples.map((v) => number(v)).join(", ")}` : "";
    const paid = verdict.usd ? `, ${number(verdict.usd)} USD` : "";
    return h("details", { class: "judged" }, h("summary", null, said),
      h("p", { class: "why", dir: "auto" }, visible(verdict.why || "no reason given")),
      h("p", { class: "soft" }, visible(`judged by ${verdict.model}${spread}${paid}`)),
      sentTo(verdict, texts),
      verdict.raw ? h("div", null, h("h5", null, "raw reply"), h("pre", { tabindex: "0", role: "region", "aria-label": "raw reply" }, visible(verdict.raw))) : null);
  }

  /** Which of two answers judges prefer: those of A and B first, those of other systems behind a click. */
  function pairsOf(view, query) {
    if (!query.pairs) return null;
    const letters = new Map([[view.a, "A"], [view.b, "B"]]);
    const system = (name, strong) => [letters.has(name) ? [h("b", { class: `letter ${letters.get(name)}` }, letters.get(name)), " "] : null, h(strong ? "b" : "span", null, bdi(name))];
    const drawn = query.pairs.map((verdict) => {
      const [one, other] = verdict.pair;
      const worse = verdict.winner === one ? other : one;
      const said = verdict.cause ? [system(one), " and ", system(other), ": ", missing(verdict)]
        : verdict.winner === undefined ? ["neither of ", system(one), " and ", system(other), " is better"]
          : [system(verdict.winner, true), " is better than ", system(worse)];
      const sample = verdict.sample === undefined ? "" : `, answer ${verdict.sample + 1}`;
      const answers = verdict.pair.map((name) => (query.systems[name] || {}).answers || [])
        .map((own) => own[(verdict.sample || 0) % own.length] || {});
      const read = answers.flatMap((answer) => answer.read || []).map(passageAt);
      return judged(verdict, [said, h("span", { class: "soft" }, visible(` · ${verdict.rubric}${sample} · ${verdict.judge}`))],
        textsOf(query, answers.map((answer) => answer.text), read, true));
    });
    const beside = (yes) => drawn.filter((_, i) => query.pairs[i].pair.every((name) => letters.has(name)) === yes);
    const [own, others] = [beside(true), beside(false)];
    return h("section", { class: "pairs", "aria-label": "which answer is better" }, h("h3", null, "Which answer is better"), own,
      others.length ? h("details", null, h("summary", null, `${own.length ? "other pairs" : "not of A and B; other pairs"}: ${others.length}`), others) : null);
  }

  /** Which grade a judge gave a passage, and why. */
  function gradeBy(verdict, query) {
    const said = verdict.cause ? missing(verdict) : h("b", null, `grade ${verdict.grade}`);
    return judged(verdict, [said, h("span", { class: "soft" }, visible(` by ${verdict.judge} · ${verdict.rubric}`))],
      textsOf(query, [], [passageAt(verdict.k)]));
  }

  /** The passages that a judge graded and that stand in neither ranking. */
  function gradedElsewhere(query, grades, shown) {
    const seen = new Set(shown.flatMap((name) => query.hits[index.rankingOf[name]] || []).map(([k]) => passageAt(k)[0]));
    const others = [...grades].filter(([id]) => !seen.has(id));
    return others.length ? h("details", null, h("summary", null, `Graded by a judge, and not listed above: ${others.length}`),
      h("ul", { class: "hits" }, others.map(([id, verdict]) => h("li", null, h("p", { class: "hit" }, bdi(passageAt(verdict.k)[1] || id), " ", h("span", { class: "soft" }, bdi(id))), gradeBy(verdict, query))))) : null;
  }

  /** The ranking of a system: what was read, what is relevant, which words match. */
  function hitsOf(query, grades, name, other, claims, answers, letter) {
    const ranking = index.rankingOf[name];
    const hits = ranking === undefined ? [] : query.hits[ranking];
    const read = new Map();
    answers.slice(0, 1).forEach((answer) => (answer.read || []).forEach((k, i) => read.set(k, i + 1)));
    const byId = new Map([...read].map(([k, place]) => [passageAt(k)[0], place]));
    const otherHits = other === undefined || index.rankingOf[other] === undefined ? null : query.hits[index.rankingOf[other]];
    const rows = hits.map(([k, score, grade], i) => ({ k, score, grade, rank: i + 1, place: byId.get(passageAt(k)[0]) }));
    const listedIds = new Set(hits.map(([k]) => passageAt(k)[0]));
    for (const [k, place] of read) {
      if (!listedIds.has(passageAt(k)[0])) rows.push({ k, score: null, grade: null, rank: null, place });
    }
    if (!rows.length) return h("p", { class: "soft" }, "No passages are known.");
    const asked = stems(query.text);
    const title = ranking === undefined ? "Passages that it read" : "Ranking";
    return h("div", null, h("h4", null, title), h("ol", { class: "hits" },
      rows.map((hit) => hitRow(hit, passageAt(hit.k), asked, claims, otherHits, letter, answers.length > 0,
        grades.has(passageAt(hit.k)[0]) ? gradeBy(grades.get(passageAt(hit.k)[0]), query) : null))));
  }

  /** Which claims a passage bears on: those of the answer, and of the gold answer. */
  function bearing(does, claims, name) {
    return [["claim", false], ["gold claim", true]].flatMap(([what, gold]) => {
      const numbers = claims.filter((claim) => claim.gold === gold).map((claim) => claim.number);
      return numbers.length ? [h("span", { class: `badge ${name}` }, `${does} ${what} ${numbers.join(", ")}`)] : [];
    });
  }

  function hitRow(hit, [id, title, text], words, claims, otherHits, letter, reads, graded) {
    const supported = claims.filter((claim) => claim.supports.includes(hit.place));
    const against = claims.filter((claim) => claim.against.includes(hit.place));
    const there = otherHits === null ? -1 : otherHits.findIndex(([j]) => passageAt(j)[0] === id);
    const badges = [
      hit.grade ? h("span", { class: "badge pass" }, `relevant, grade ${hit.grade}`) : null,
      hit.grade === 0 ? h("span", { class: "badge" }, "judged not relevant") : null,
      hit.place ? h("span", { class: "badge read" }, `read as passage ${hit.place}`) : null,
      !hit.place && reads ? h("span", { class: "badge" }, "not read") : null,
      ...bearing("supports", supported, "pass"),
      ...bearing("contradicts", against, "fail"),
    ];
    const where = otherHits === null ? "" : there < 0 ? `not in the first ${otherHits.length} of ${letter}` : `#${there + 1} in ${letter}`;
    const score = hit.score === null ? null : `${number(hit.score)}`;
    const meta = h("span", { class: "soft" }, visible([score, where].filter(Boolean).join(" · ")));
    const names = h("bdi", null, marked(title || id, (word) => (words.has(stem(word)) ? "match" : null)));
    const body = text === null
      ? h("p", { class: "soft" }, "its text is not known here")
      : h("p", { class: "passage", dir: "auto" }, passageText(text, words, [...supported, ...against]));
    const more = h("button", { type: "button", class: "whole", "aria-expanded": "false" }, "whole");
    return h("li", { class: hit.grade ? "relevant" : null },
      h("p", { class: "hit" }, h("b", null, hit.rank ? `#${hit.rank}` : "-"), " ", names,
        title && title !== id ? h("span", { class: "soft" }, " ", bdi(id)) : null, " ", meta),
      h("p", { class: "badges" }, badges), body, text !== null && text.length > 160 ? more : null, graded);
  }

  /** A passage with the words of the question marked, and the sentences that bear on claims. */
  function passageText(text, words, claims) {
    const match = (word) => (words.has(stem(word)) ? "match" : null);
    const sentences = [...new Set(claims.map((claim) => closest(text, claim.text)).filter(Boolean))];
    const made = document.createDocumentFragment();
    let rest = text;
    for (const sentence of sentences.sort((a, b) => text.indexOf(a) - text.indexOf(b))) {
      const start = rest.indexOf(sentence);
      if (start < 0) continue;
      made.append(marked(rest.slice(0, start), match), h("span", { class: "bears" }, marked(sentence, match)));
      rest = rest.slice(start + sentence.length);
    }
    made.append(marked(rest, match));
    return made;
  }

  /** The texts of an item by the names that prompts have for them; those that both of a pair read, once. */
  function textsOf(query, [answer, other], read, once = false) {
    let texts = read.map(([, title, text]) => (text === null ? null : title ? `${title} ${text}` : text));
    if (once) texts = [...new Set(texts)];
    const known = { question: query.text, answer, other };
    if (!texts.includes(null)) known.passages = texts.join("\n");
    texts.forEach((text, i) => (known[`passage ${i + 1}`] = text));
    query.gold.forEach((text, i) => (known[`reference ${i + 1}`] = text));
    return known;
  }

  /** What a judge was sent for a verdict: its words, with the texts of the item put where they were. */
  function sentTo(verdict, known) {
    const whole = (text) => text.startsWith("[[text]]") ? text.slice(8) : text.startsWith("[[") ? known[text.slice(2, -2)] ?? text : text;
    const sent = (verdict.prompts || []).filter(([form]) => form in index.prompts).map(([form, fence, texts, to]) => {
      const [system, user] = index.prompts[form];
      const filled = user.replace(/\[\[(fence|\d+)\]\]/g, (_, gap) => (gap === "fence" ? fence : whole(texts[gap - 1])));
      return h("div", null, to ? h("p", { class: "soft" }, visible(`sent to ${to}`)) : null,
        [["system", system], ["user", filled]].flatMap(([role, text]) => [h("h5", null, role), h("pre", { dir: "auto", tabindex: "0", role: "region", "aria-label": `${role} prompt` }, visible(text))]));
    });
    if (sent.length) return h("details", null, h("summary", null, `What it was sent: ${sent.length} prompt${sent.length > 1 ? "s" : ""}`), sent);
    return h("p", { class: "soft" }, "No prompt was sent: the judge computes, or there was nothing to ask.");
  }

  /** The prompt, with the passages that stand beside it put where they were. */
  function promptOf(answer) {
    if (!answer || !answer.prompt) return null;
    const text = answer.prompt.replace(/\[\[passage (\d+)\]\]/g, (whole, n) => {
      const k = (answer.read || [])[Number(n) - 1];
      return k === undefined ? whole : (passageAt(k)[2] ?? whole);
    });
    return h("details", null, h("summary", null, "Prompt"), h("pre", { tabindex: "0", role: "region", "aria-label": "prompt" }, visible(text)));
  }

  // ---- controls -------------------------------------------------------------------------------

  const form = $("filters");

  function options(select, pairs) {
    select.replaceChildren(...pairs.map(([value, text]) => h("option", { value }, visible(text))));
  }

  function fillForm() {
    const systems = index.systems.map(({ name }) => [name, name]);
    options(form.elements.a, systems);
    options(form.elements.b, [[NO_SYSTEM, "none"], ...systems]);
    options(form.elements.score, index.scores.map(({ name }) => [name, name]));
    options(form.elements.sort, Object.entries(SORTS));
    const slices = Object.entries(index.facts).flatMap(([field, values]) =>
      [...new Set(values.flat())].sort().map((value) => [JSON.stringify([field, value]), `${field}: ${value}`]));
    options(form.elements.slice, [["", "all"], ...slices]);
    const occurs = new Set(index.queries.flatMap(({ systems }) => Object.values(systems).map(({ cause }) => cause)));
    const causes = Object.keys(index.causeWords).filter((cause) => occurs.has(cause));
    options(form.elements.cause, [["", "all"], ...causes.map((cause) => [cause, spaced(cause)])]);
    const empty = { facts: !slices.length, causes: !causes.length };
    for (const [name, none] of Object.entries(empty)) form.querySelector(`[data-if=${name}]`).hidden = none;
  }

  /** Put the view into the form, except into the field that is being typed in. */
  function setForm(view) {
    for (const field of form.elements) {
      if (!field.name || field === document.activeElement && field.type !== "checkbox" && field.tagName === "INPUT") continue;
      if (field.type === "checkbox") field.checked = field.name === "deep" ? view.deep !== "0" : Boolean(view[field.name]);
      else field.value = view[field.name] ?? "";
    }
  }

  function changed(event) {
    const { name, type, checked, value } = event.target;
    if (!name || !(name in form.elements)) return;
    const changes = {};
    if (name === "deep") changes.deep = checked ? null : "0";
    else changes[name] = type === "checkbox" ? (checked ? "1" : null) : value;
    // typing leaves no trail of addresses to go back through
    location.replace(link(changes));
  }

  function show() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const asked = $("queries") && (wanted.has("queries") || wanted.has("q"));
    const name = asked ? "queries" : location.hash === "#pictures" ? "pictures" : "results";
    for (const each of ["results", "pictures", "queries"]) {
      if (!$(each)) continue;
      $(each).hidden = each !== name;
      if (each === name) $(`to-${each}`).setAttribute("aria-current", "page");
      else $(`to-${each}`).removeAttribute("aria-current");
    }
    if (!asked) return;
    if (!index) {
      $("status").textContent = "Unpacking…";
      started ??= unpack().then(start);
      return;
    }
    const view = viewOf(location.hash);
    setForm(view);
    drawList(view);
    if (view.q === undefined && listed.rows.length) view.q = index.queries[listed.rows[0]].id;
    drawSteps(view);
    drawQuery(view);
    if ($("chart").open) drawChart(view);
  }

  // ---- the picture of the differences ---------------------------------------------------------

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  /** A mark that opens its query; the list does the same for a keyboard. */
  function opening(row, said, shape) {
    shape.append(svg("title", {}, said));
    return svg("a", { href: link({ q: index.queries[row].id }), tabindex: "-1" }, shape);
  }

  const scaleOf = (low, high, start, end) => (value) =>
    start + ((high > low ? (value - low) / (high - low) : 0.5) * (end - start));

  function drawChart(view) {
    const lower = (scoreOf(view.score) || {}).lower;
    const pairs = listed.rows
      .map((row) => [row, valueAt(view.a, view.score, row), view.b === NO_SYSTEM ? null : valueAt(view.b, view.score, row)])
      .filter(([, a, b]) => a !== null && b !== null);
    const place = $("chart").querySelector("div");
    if (!pairs.length) {
      place.replaceChildren(h("p", { class: "soft" }, view.b === NO_SYSTEM ? "Choose a system B: the picture is of the differences from it." : "No query that is found has this score of both A and B."));
      return;
    }
    place.replaceChildren(sortedBars(pairs, view, lower));
  }

  const shadeOf = (change, lower) => (change === 0 ? "#888" : (change > 0) !== Boolean(lower) ? "#009e73" : "#d55e00");
  const saidOf = (row, a, b) => `${visible(index.queries[row].id)} ${visible(brief(index.queries[row].text))}: ${number(a)} and ${number(b)}, ${number(a - b, true)}`;

  function sortedBars(pairs, view, lower) {
    const [width, height] = [640, 260];
    const changes = pairs.map(([row, a, b]) => [row, a, b, a - b]).sort((x, y) => x[3] - y[3]);
    const ends = [Math.min(0, changes[0][3]), Math.max(0, changes[changes.length - 1][3])];
    const up = scaleOf(ends[0], ends[1], height - 10, 26);
    const step = (width - 60) / changes.length;
    const marks = changes.map(([row, a, b, change], i) => opening(row, saidOf(row, a, b), svg("rect", {
      x: 50 + i * step, y: Math.min(up(change), up(0)) - (change ? 0 : 1), fill: shadeOf(change, lower),
      width: Math.max(step - (step > 3 ? 1 : 0), 0.5), height: Math.max(Math.abs(up(change) - up(0)), 2),
    })));
    const count = (test) => changes.filter((each) => test(each[3])).length;
    const told = `A above B on ${count((x) => x > 0)}, below on ${count((x) => x < 0)}, the same on ${count((x) => x === 0)} queries`;
    return svg("svg", { class: "picture", role: "img", "aria-label": told, viewBox: `0 0 ${width} ${height}`, width, height },
      svg("text", { x: 50, y: 14 }, `${view.score}, A minus B by query: ${told}`),
      ...[...new Set([ends[0], 0, ends[1]])].flatMap((value) => [
        svg("path", { class: value ? "grid" : "axis", d: `M50 ${up(value)}H${width - 10}` }),
        svg("text", { class: "soft", x: 44, y: up(value) + 4, "text-anchor": "end" }, number(value, true))]),
      ...marks);
  }

  function drawSteps(view) {
    const at = listed.rows.indexOf(index.rowOf.get(view.q));
    $("place").textContent = at < 0 ? "" : `${at + 1} of ${listed.rows.length}`;
    for (const [id, row] of [["previous", listed.rows[at - 1]], ["next", at < 0 ? listed.rows[0] : listed.rows[at + 1]]]) {
      if (row === undefined) $(id).removeAttribute("href");
      else $(id).setAttribute("href", link({ q: index.queries[row].id }));
    }
  }

  /** Arrows go to the previous and the next query, where no field or table needs them. */
  function arrows(event) {
    if ($("queries").hidden || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, .scroll")) return;
    const id = { ArrowLeft: "previous", ArrowRight: "next" }[event.key];
    if (id && $(id).hasAttribute("href")) $(id).click();
  }

  function start() {
    fillForm();
    form.addEventListener("input", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    $("more").addEventListener("click", () => drawMore(viewOf(location.hash)));
    $("detail").addEventListener("click", (event) => {
      if (!event.target.classList.contains("whole")) return;
      const whole = event.target.closest("li").classList.toggle("open");
      event.target.setAttribute("aria-expanded", String(whole));
      event.target.textContent = whole ? "less" : "whole";
    });
    $("chart").addEventListener("toggle", () => $("chart").open && drawChart(viewOf(location.hash)));
    addEventListener("keydown", arrows);
    show();
  }

  let started = null; // the promise of the data, which are unpacked when queries are first asked for

  // a part of a bar of causes leads to its queries; a keyboard has the filter of the other view
  for (const bar of $("queries") ? document.querySelectorAll("#results [data-cause]") : []) {
    bar.addEventListener("click", () => {
      location.hash = `queries&${new URLSearchParams({ a: bar.dataset.system, b: NO_SYSTEM, cause: bar.dataset.cause })}`;
    });
  }

  // paper has no click: what is folded in the results is printed
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("#results details:not([open])")];
    for (const each of unfolded) each.open = true;
  });
  addEventListener("afterprint", () => unfolded.forEach((each) => (each.open = false)));

  // The first screen stands before any of this: the tables are in the page as they are, and this
  // script stands before the data.
  addEventListener("hashchange", show);
  $("views").hidden = false;
  show();
})();
