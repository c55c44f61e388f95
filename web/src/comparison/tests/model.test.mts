import assert from "node:assert/strict";
import { test } from "node:test";

import { bars, depthPoints, depthScale, histogramWords, layerStarts, onScale, placeOf } from "../model/charts";
import { bestFirst, editLines, isEdited, NO_EDITS, withLayout, withOffset, withoutPair, withPair } from "../model/edits";
import { COLLAPSED, EVERYTHING, EXPANDED, filtered, fromQuery, grouped, groupTitles, isExpanded, listed, PLAIN, sorted, SORTS, toQuery, withGroup } from "../model/table";
import { DEFAULT_RULE, fromRuleQuery, judgeRequest, outcome, passingRules, roundedUp, ruleOf, sameRule, toRuleQuery } from "../model/tolerance";
import { moved, stepTo } from "../model/history";
import { brief, cellsOf, coverageWords, precise, spark, sureness, toNumber, unexplained } from "../model/row_text";
import { fullHeight, laidOut, placeAt, Pool, scrollFor, visible } from "../model/virtual_list";

const BLANK = {
  candidate_name: null, role: "output", step: 0, rank: 0, op: null, layer: null, stage: null, component: null, status: "match",
  reason: null, reference_shape: [2], candidate_shape: [2], reference_dtype: "float32", candidate_dtype: "float32", recipe: null,
  coverage: 1, method: "exact", pairing_confidence: 1, origin: null, cause: null, elements: 2, mismatched: 0, max_abs: 0, mean_abs: 0,
  rel_l2: 0, one_minus_cosine: 0, max_rel: 0, mean_rel: 0, rmse: 0, nmse: 0, max_ulp: 0, ratio: 0,
};
const row = (index, key, fields = {}) => ({ ...BLANK, index, key, name: key, ...fields });
const keys = (rows) => rows.map((item) => item.key);

test("a candidate's name is shown by what is other about it", () => {
  const cut = (key, candidate_name) => cellsOf(row(0, key, { candidate_name })).other;
  assert.equal(cut("text.encoder.layer.4.output.dense.bias:param", "text.encoder.layer.3.output.dense.bias:param"), "…layer.3…");
  assert.equal(cut("layers.4.q", "layers.3.q"), "layers.3…");
  assert.equal(cut("layers.4:in.0", "layers.3:in.0"), "layers.3…");
  assert.equal(cut("layers.0.attn.q_proj", "blk.0.attn_q"), "blk.0.attn_q");
  assert.equal(cut("a.b", "a.b.c"), "a.b.c");
});

test("numbers keep what matters of them", () => {
  assert.deepEqual([0.000949859, 1.04e-9, 0, 2, -0.5, "nan", "-inf", null].map((value) => brief(value)), ["0.00095", "1.04e-9", "0", "2", "-0.5", "nan", "-inf", "–"]);
  assert.equal(precise(1234567), "1,234,567");
  assert.equal(precise(0.12345678), "0.123457");
  assert.ok(Number.isNaN(toNumber("nan")));
  assert.equal(toNumber(null), null);
});

test("a filter keeps what has every word, in any field", () => {
  const rows = [row(0, "layers.0.ln_1", { op: "LayerNorm", layer: 0 }), row(1, "layers.0.mlp", { layer: 0 }), row(2, "logits")];
  assert.deepEqual(keys(filtered(rows, { ...EVERYTHING, text: "LAYERS norm" })), ["layers.0.ln_1"]);
  assert.deepEqual(keys(filtered(rows, { ...EVERYTHING, layer: "none" })), ["logits"]);
  assert.equal(filtered(rows, EVERYTHING), rows);
  assert.deepEqual(filtered(rows, { ...EVERYTHING, statuses: ["failed"] }), []);
});

test("a dtype is found on either side", () => {
  const rows = [row(0, "a", { candidate_dtype: "bfloat16" }), row(1, "b")];
  assert.deepEqual(keys(filtered(rows, { ...EVERYTHING, dtype: "bfloat16" })), ["a"]);
});

test("rows without the metric come last both ways, NaN counts as worst, ties keep their order", () => {
  const rows = [row(0, "none", { max_abs: null }), row(1, "nan", { max_abs: "nan" }), row(2, "a", { max_abs: 1 }), row(3, "b", { max_abs: 1 })];
  assert.deepEqual(keys(sorted(rows, { by: "max_abs", descending: true })), ["nan", "a", "b", "none"]);
  assert.deepEqual(keys(sorted(rows, { by: "max_abs", descending: false })), ["a", "b", "nan", "none"]);
  assert.deepEqual(keys(sorted(rows, { by: "order", descending: true })), ["b", "a", "nan", "none"]);
});

test("embeddings stand before the layers and heads after them, filtered or not", () => {
  const rows = [row(0, "wte"), row(1, "l0", { layer: 0 }), row(2, "l1", { layer: 1 }), row(3, "logits")];
  const titles = groupTitles(rows, "layer");
  assert.deepEqual(grouped(rows, "layer", titles).map((group) => group.title), ["Before the layers", "Layer 0", "Layer 1", "After the layers"]);
  assert.deepEqual(grouped([rows[3]], "layer", titles).map((group) => group.title), ["After the layers"]);
});

test("weights recorded before the run do not put embeddings between the layers", () => {
  const param = (index, key, layer = null) => row(index, key, { layer, role: "param" });
  const rows = [param(0, "wte.weight"), param(1, "l0.weight", 0), param(2, "ln_f.weight"), row(3, "tokens"), row(4, "l0", { layer: 0 }), row(5, "ln_f")];
  const groups = grouped(rows, "layer", groupTitles(rows, "layer"));
  assert.deepEqual(groups.map((group) => [group.title, keys(group.rows)]), [
    ["Before the layers", ["wte.weight", "tokens"]],
    ["Layer 0", ["l0.weight", "l0"]],
    ["After the layers", ["ln_f.weight", "ln_f"]],
  ]);
  const flat = groupTitles([row(0, "a")], "layer");
  assert.deepEqual([...flat.values()], ["All tensors"]);
});

test("steps and components are told apart only where there are several", () => {
  const rows = [row(0, "a", { layer: 0 }), row(1, "b", { layer: 0, step: 1, component: "decoder" })];
  assert.deepEqual([...groupTitles(rows, "layer").values()], ["Step 0 · Layer 0", "Step 1 · decoder · Layer 0"]);
});

test("verdicts are grouped from bad to good", () => {
  const rows = [row(0, "a"), row(1, "b", { status: "missing" }), row(2, "c", { status: "mismatch" })];
  const groups = grouped(rows, "verdict", groupTitles(rows, "verdict"));
  assert.deepEqual(groups.map((group) => group.title), ["Mismatch", "Missing", "Match"]);
  assert.equal(groups[2].counts.match, 1);
});

test("a collapsed group is one line, an ungrouped list has no heads", () => {
  const rows = [row(0, "a", { layer: 0 }), row(1, "b", { layer: 1 })];
  const groups = grouped(rows, "layer", groupTitles(rows, "layer"));
  const items = listed(groups, withGroup(COLLAPSED, "Layer 1", true), new Set([1]));
  assert.deepEqual(items.map((item) => item.id), ["group-Layer 0", "group-Layer 1", "row-1"]);
  assert.equal(items[2].opened, true);
  const flat = listed(grouped(rows, "none", groupTitles(rows, "none")), COLLAPSED, new Set());
  assert.deepEqual(flat.map((item) => item.id), ["row-0", "row-1"]);
});

test("one group can be closed while all others are open, and opened again", () => {
  const closed = withGroup(EXPANDED, "Layer 3", false);
  assert.deepEqual([isExpanded(closed, "Layer 3"), isExpanded(closed, "Layer 4")], [false, true]);
  assert.deepEqual(withGroup(closed, "Layer 3", true), EXPANDED);
});

test("the window holds what is in sight and little more", () => {
  const layout = laidOut(10_000, (place) => (place === 5 ? 400 : 30));
  assert.equal(fullHeight(layout), 9_999 * 30 + 400);
  assert.equal(placeAt(layout, 5 * 30 + 399), 5);
  assert.equal(placeAt(layout, 5 * 30 + 400), 6);
  assert.deepEqual(visible(layout, 100_000, 100_600, 4), { first: 3317, end: 3346 });
  assert.deepEqual(visible(laidOut(0, () => 1), 0, 100, 4), { first: 0, end: 0 });
  assert.deepEqual(visible(layout, -500, -100, 0), { first: 0, end: 1 });
});

test("scrolling to a line moves no further than needed", () => {
  const layout = laidOut(100, () => 30);
  assert.equal(scrollFor(layout, 10, 0, 600, 30), null);
  assert.equal(scrollFor(layout, 0, 50, 600, 30), -50);
  assert.equal(scrollFor(layout, 20, 0, 600, 30), 30);
});

test("the address holds the view and gives it back", () => {
  const view = { filter: { text: "a b&c", statuses: ["mismatch", "failed"], layer: "2", stage: "ln_1", dtype: "float32" }, sort: { by: "max_abs", descending: true }, group: "verdict" };
  const query = toQuery(view, new URLSearchParams("view=values"));
  assert.equal(query.get("view"), "values");
  assert.deepEqual(fromQuery(new URLSearchParams(query.toString())), view);
  assert.equal(toQuery(PLAIN, query).toString(), "view=values");
  assert.deepEqual(fromQuery(new URLSearchParams("verdict=rotten&sort=colour&group=smell")), PLAIN);
});

test("going back closes what was opened since, and leaving closes all", () => {
  const two = stepTo(stepTo([], 3).trail, 7);
  assert.deepEqual(two, { trail: [3, 7], open: 7, close: [] });
  assert.deepEqual(stepTo(two.trail, 3), { trail: [3], open: 3, close: [7] });
  assert.deepEqual(stepTo(two.trail, null), { trail: [], open: null, close: [3, 7] });
});

test("a tolerance in the address is the same when read again", () => {
  const text = { ...DEFAULT_RULE, rule: "custom", atol: "1e-3", rtol: "", equalNan: true };
  const written = Object.entries(toRuleQuery(text, DEFAULT_RULE)).filter(([, value]) => value !== null && value !== "" && value !== false);
  const query = new URLSearchParams(written.map(([name, value]) => [name, value === true ? "1" : value]));
  assert.deepEqual(fromRuleQuery(query, DEFAULT_RULE), text);
  assert.deepEqual(fromRuleQuery(new URLSearchParams(), text), text);
  assert.ok(sameRule(DEFAULT_RULE, { ...DEFAULT_RULE, atol: "5" }) && !sameRule(text, DEFAULT_RULE));
});

test("bars stand on a log scale and few are seen beside many", () => {
  const histogram = { edges: [1, 10, 100], counts: [1, 10_000], zero: 5, nonfinite: 0 };
  assert.deepEqual(bars(histogram).map((bar) => [bar.left, bar.height]), [[0, 0.01], [0.5, 1]]);
  assert.deepEqual([1, 10, 100, 101, 0, null].map((value) => placeOf(value, histogram)), [0, 0.5, 1, null, null, null]);
  assert.equal(histogramWords(histogram), "most between 10 and 100, 5 without difference");
});

test("zero stands at the bottom of the log scale and infinity at its top", () => {
  const rows = [row(0, "a"), row(1, "b"), row(2, "c")];
  const points = depthPoints([[0, 0, 1e-5], [1, 2e-4, 1e-5], [2, "inf", null], [9, 1, 1]], rows);
  const scale = depthScale(points);
  assert.deepEqual(points.map((point) => point.key), ["a", "b", "c"]);
  assert.ok(Math.abs(Math.log10(scale.bottom) + 6) < 1e-9 && scale.top >= 1e-3);
  assert.deepEqual([0, 2e-4, Number.POSITIVE_INFINITY, null].map((value) => onScale(value, scale)), [scale.bottom, 2e-4, scale.top, null]);
  assert.deepEqual(depthScale([]), { bottom: 1e-9, top: 1 });
});

test("layers are marked where they begin, no more of them than fit", () => {
  const rows = Array.from({ length: 40 }, (_, index) => row(index, `t${index}`, { layer: index >> 1 }));
  const points = depthPoints(rows.map((item) => [item.index, 1, 1]), rows);
  assert.equal(layerStarts(points, 100).length, 20);
  assert.deepEqual(layerStarts(points, 5).map((start) => start.label), ["0", "4", "8", "12", "16"]);
});

test("an unfinished tolerance is a sentence, not a request", () => {
  assert.equal(judgeRequest({ ...DEFAULT_RULE, rule: "custom", atol: "-1" }), "atol takes a number from 0 up");
  assert.equal(judgeRequest({ ...DEFAULT_RULE, k: "many" }), "K takes a number from 0 up");
  assert.deepEqual(judgeRequest({ ...DEFAULT_RULE, rule: "custom", atol: "1e-3" }), { rule: "custom", k: null, atol: 1e-3, rtol: 0, toml: null, equal_nan: false });
  assert.equal(judgeRequest(DEFAULT_RULE).k, null);
});

const judgedRow = (index, fields) => ({ index, status: "match", reason: null, mismatched: 0, tolerance: { rule: "default", k: 256 }, required: { atol: 1, rtol: 2 }, ratio: 0.5, ...fields });

test("another tolerance changes status, counts and first divergence, and a match has no origin", () => {
  const head = { verdict: "mismatch", summary: { match: 0 }, first_divergence: { pair: 0 } };
  const rows = [row(0, "a", { status: "mismatch", origin: "introduced", ratio: 9 }), row(1, "b", { status: "missing" })];
  const judged = { verdict: "match", summary: { match: 1 }, first_divergence: null, rows: [judgedRow(0)] };
  const seen = outcome(head, rows, judged);
  assert.deepEqual([seen.verdict, seen.summary.match, seen.first], ["match", 1, null]);
  assert.deepEqual([seen.rows[0].status, seen.rows[0].origin, seen.rows[0].ratio, seen.rows[1].status], ["match", null, 0.5, "missing"]);
  assert.equal(outcome(head, rows, null).rows, rows);
});

test("what may let every pair match is rounded up from what the worst row needs", () => {
  const rows = [row(0, "a", { max_abs: 0.12341, max_rel: 7 }), row(1, "b", { max_abs: null, max_rel: null })];
  const judged = { rows: [judgedRow(0, { worst_element: 3.001 }), judgedRow(1, { tolerance: { rule: "exact" }, worst_element: null })] };
  const told = passingRules(judged, rows, false).map((rule) => [rule.rule, rule.k, rule.atol, rule.rtol]);
  assert.deepEqual(told, [["default", "769", "", ""], ["custom", "", "0.124", ""], ["custom", "", "", "7"]]);
  assert.deepEqual(passingRules({ rows: [judgedRow(0, { worst_element: "inf" })] }, [row(0, "a", { max_abs: "inf" })], false).length, 1);
  assert.deepEqual([roundedUp(0), roundedUp(1.23456e-9), roundedUp(100)], [0, 1.24e-9, 100]);
});

test("the rule of a comparison is read from its settings", () => {
  assert.deepEqual(ruleOf({ tolerances: "default" }), DEFAULT_RULE);
  assert.equal(ruleOf({ tolerances: "torch" }).rule, "torch");
  assert.deepEqual(judgeRequest(ruleOf({ atol: 1e-3, rtol: null, equal_nan: true })), { rule: "custom", k: null, atol: 1e-3, rtol: 0, toml: null, equal_nan: true });
  const named = ruleOf({ named_tolerances: [{ name: "a\\..*", atol: 0.1, rtol: null, k: null }] });
  assert.equal(named.toml, '[[tolerances]]\nname = "a\\\\..*"\natol = 0.1\n');
});

test("a tensor belongs to one pair at most", () => {
  const once = withPair(NO_EDITS, "a", "x");
  const twice = withPair(withPair(once, "a", "y"), "b", "y");
  assert.deepEqual(twice.pairs, [{ reference: "b", candidate: "y" }]);
  const dropped = withoutPair(once, "a", "x");
  assert.deepEqual([dropped.pairs, dropped.dropped], [[], [{ reference: "a", candidate: "x" }]]);
  assert.deepEqual(withPair(dropped, "a", "x"), once);
});

test("each edit can be taken back alone", () => {
  const edits = withOffset(withLayout(withPair(NO_EDITS, "a", "x"), "a", "a b -> b a"), -2);
  const lines = editLines(edits);
  assert.deepEqual(lines.map((line) => line.text), ["a is paired with x", "a is compared as a b -> b a", "the candidate's layers are counted -2"]);
  assert.deepEqual(lines[2].without.layer_offset, null);
  assert.ok(isEdited(edits) && !isEdited(NO_EDITS));
});

test("the likeliest partner comes first", () => {
  const line = (key, fields = {}) => ({ key, shape: [9], dtype: "float32", row: null, ...fields });
  const tensors = [line("zzz"), line("layers.0.attn.key", { shape: [2, 3] }), line("block0.query", { shape: [3, 2] }), line("named")];
  const wanted = { key: "layers.0.attn.query", shape: [2, 3] };
  assert.deepEqual(keys(bestFirst(tensors, wanted, ["named"])), ["named", "layers.0.attn.key", "block0.query", "zzz"]);
});

test("the order of words in a name tells layers apart", () => {
  const line = (key) => ({ key, shape: [2], dtype: "float32", row: null });
  const found = bestFirst([line("layers.1.ln_2"), line("layers.2.ln_1")], { key: "layers.2.ln_1", shape: [2] }, []);
  assert.deepEqual(keys(found), ["layers.2.ln_1", "layers.1.ln_2"]);
});

test("the spark bar passes its middle exactly when more than allowed", () => {
  assert.deepEqual(spark(1), { begin: 0, end: 0.5, beyond: false });
  assert.ok(spark(1.0001).beyond && spark(1.0001).end > 0.5);
  assert.equal(spark(1e12).end, 1);
  assert.equal(spark(Number.POSITIVE_INFINITY).end, 1);
  assert.equal(spark(null), null);
  assert.ok(spark(0).end < 0.02);
});

test("every way to sort names a value of the row", () => {
  for (const key of SORTS) assert.notEqual(key.value(row(1, "a")), undefined);
});

test("rows are found again after others were paired", () => {
  const before = [row(0, "a", { candidate_name: "a" }), row(1, "b", { status: "missing" }), row(2, "x", { status: "extra", candidate_name: "x" }), row(3, "a", { status: "extra", candidate_name: "a@1" })];
  const after = [row(0, "b", { candidate_name: "x" }), row(1, "a", { status: "missing" }), row(2, "a@1", { status: "extra", candidate_name: "a@1" })];
  const now = moved(before, after);
  assert.deepEqual([0, 1, 2, 3, 4].map(now), [1, 0, 0, 2, null]);
});

test("rows of a layer leave out what the group's head says", () => {
  const rows = [
    row(0, "encoder.layer.4:in.0", { layer: 4 }),
    row(1, "encoder.layer.4.attention.self.query", { layer: 4 }),
    row(2, "blk.4.attn_q", { layer: 4 }),
    row(3, "pooler.4.dense"),
  ];
  const groups = grouped(rows, "layer", groupTitles(rows, "layer"));
  assert.deepEqual(groups.map((group) => group.prefix), ["encoder.layer.4.", ""]);
  const names = (prefix) => rows.map((one) => cellsOf(one, prefix)).map(({ start, end }) => start + end);
  assert.deepEqual(names("encoder.layer.4."), ["encoder.layer.4:in.0", "attention.self.query", "blk.4.attn_q", "pooler.4.dense"]);
  assert.equal(grouped(rows, "verdict", groupTitles(rows, "verdict"))[0].prefix, "");
});

test("a name is cut in its middle, before a part of it where one begins near", () => {
  const cut = (key) => [cellsOf(row(0, key)).start, cellsOf(row(0, key)).end];
  assert.deepEqual(cut("layers.0.ln_1"), ["", "layers.0.ln_1"]);
  assert.deepEqual(cut("intermediate.intermediate_act_fn.gelu"), ["intermediate.intermediate", "_act_fn.gelu"]);
  assert.deepEqual(cut(`${"a".repeat(30)}${"b".repeat(30)}`), ["a".repeat(30) + "b".repeat(10), "b".repeat(20)]);
});

test("the chart ends a few decades below what is allowed, whatever is smaller", () => {
  const point = (error, allowed) => ({ index: 0, key: "x", layer: null, status: "match", error, allowed });
  const usual = Array.from({ length: 9 }, () => point(1e-7, 3e-5));
  assert.deepEqual(depthScale([...usual, point(1e-39, 2e-36), point(0.02, 3e-5)]), { bottom: 1e-9, top: 0.1 });
  assert.deepEqual(depthScale(usual), { bottom: 1e-7, top: 0.0001 });
  assert.deepEqual(depthScale([point(1e-12, null), point(1, null)]), { bottom: 1e-12, top: 10 });
});

test("what is not all of the reference never reads as all", () => {
  assert.deepEqual([1, 0.99999, 0.5].map(coverageWords), ["all compared", "99.9 % compared", "50 % compared"]);
});

test("a row without a cause has the note that says why", () => {
  const notes = [
    { code: "record_next", key: "a", text: "What a was computed from was not recorded" },
    { code: "no_cause", key: "a:in.0", text: "No cause that was tested explains a:in.0" },
    { code: "no_cause", key: "a", text: "No cause that was tested explains a" },
    { code: "not_searched", key: "c", text: "There was no time to look at c" },
    { code: "not_searched", key: null, text: "There was no time to look at 3 rows" },
  ];
  assert.equal(unexplained("a", notes), notes[2].text);
  assert.equal(unexplained("a:in.0", notes), notes[1].text);
  assert.equal(unexplained("c", notes), notes[3].text);
  assert.equal(unexplained("b", notes), null);
});

test("confidence is written as in the reports", () => {
  assert.deepEqual([1, 0.964, 0.02, 0.5].map(sureness), ["confidence 1", "confidence 0.96", "confidence 0.02", "confidence 0.5"]);
});

test("an element whose line leaves is given to one that comes, and no other changes hands", () => {
  const items = listed(grouped(Array.from({ length: 50 }, (_, index) => row(index, `t${index}`)), "none", new Map()), EXPANDED, new Set());
  const pool = new Pool();
  const first = pool.draw(items, [0, 1, 2, 3]);
  assert.deepEqual(first.map((slot) => slot.number), [0, 1, 2, 3]);
  const next = pool.draw(items, [0, 2, 3, 4, 5]);
  assert.deepEqual(next.map((slot) => slot.item.row.key), ["t0", "t4", "t2", "t3", "t5"]);
  assert.deepEqual(next.map((slot) => slot.number), [0, 1, 2, 3, 4]);
  assert.equal(next[2], first[2]);
  const far = pool.draw(items, [0, 40, 41, 42, 43]);
  assert.equal(far[0], first[0]);
  assert.deepEqual(far.map((slot) => slot.number), [0, 1, 2, 3, 4]);
});

test("the heads of groups and rows do not take each other's elements", () => {
  const rows = [row(0, "a", { layer: 0 }), row(1, "b", { layer: 1 })];
  const groups = grouped(rows, "layer", groupTitles(rows, "layer"));
  const pool = new Pool();
  const [head, first] = pool.draw(listed(groups, EXPANDED, new Set()), [0, 1]);
  const [other, second] = pool.draw(listed(groups, EXPANDED, new Set()), [2, 3]);
  assert.deepEqual([other.number, second.number], [head.number, first.number]);
  assert.deepEqual([other.item.kind, second.item.kind], ["group", "row"]);
  const [kept] = pool.draw(listed(groups, EXPANDED, new Set([1])), [3]);
  assert.deepEqual([kept.number, kept.item.opened], [second.number, true]);
});

test("a row says both sides' names, shapes and types where they differ", () => {
  const same = cellsOf(row(0, "a"));
  assert.deepEqual([same.other, same.title, same.shapes, same.dtypes, same.part], [null, "a", "[2]", "float32", null]);
  const unlike = cellsOf(row(0, "a", { candidate_name: "b", candidate_shape: [1, 2], candidate_dtype: "bfloat16", coverage: 0.5, mismatched: 1 }));
  assert.deepEqual([unlike.other, unlike.title], ["b", "a\ncandidate: b"]);
  assert.deepEqual([unlike.shapes, unlike.dtypes, unlike.part], ["[2] → [1, 2]", "float32 → bfloat16", "50 %"]);
  assert.deepEqual([unlike.mismatched, unlike.of], ["1", "\u00a0/ 2"]);
  const extra = cellsOf(row(0, "b", { candidate_name: "b", reference_shape: null, reference_dtype: null, mismatched: null, max_abs: null }));
  assert.deepEqual([extra.other, extra.shapes, extra.dtypes, extra.mismatched, extra.maxAbs], [null, "[2]", "float32", "", "–"]);
});
