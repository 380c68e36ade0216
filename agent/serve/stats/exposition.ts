/*
 * The formats in which Prometheus reads metrics, written as its Go library writes them
 * (github.com/prometheus/common/expfmt).
 */

export type MetricType = "counter" | "gauge" | "histogram" | "summary" | "untyped";

/** The labels of a sample. Samples that share them should share the object: its text is then formatted once. */
export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: Labels;
  /** Labels of this sample alone, besides `labels`. */
  readonly extraLabels?: Labels;
  readonly value: number;
  /** When the value was read, in milliseconds since the epoch; undefined for the time of the scrape. */
  readonly timestampMs?: number | undefined;
  /** `_bucket`, `_sum` or `_count` of a histogram or a summary. */
  readonly suffix?: string;
}

/** All samples of one metric. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: MetricType;
  readonly samples: readonly Sample[];
}

/** The content types of the answers. */
export const expositionTypes = {
  text: "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
  openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
} as const;

export type ExpositionFormat = keyof typeof expositionTypes;

/**
 * The format that a client prefers by its header `Accept`: OpenMetrics if it is named before, or with a higher `q` than,
 * `text/plain`; text for everything else, as Go's library does.
 */
export function negotiateExposition(accept: string | undefined): ExpositionFormat {
  const wanted = (accept ?? "").split(",").map((range, index) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const q = Number(parameters.find((each) => each.startsWith("q="))?.slice(2) ?? 1);
    const version = parameters.find((each) => each.startsWith("version="))?.slice(8) ?? "";
    return { type, version, q: Number.isFinite(q) ? q : 0, index };
  });
  const inOrder = wanted.filter(({ q }) => q > 0).toSorted((a, b) => b.q - a.q || a.index - b.index);
  for (const { type, version } of inOrder) {
    if (type === "text/plain" && ["", "0.0.4"].includes(version)) return "text";
    if (type === "application/openmetrics-text" && ["", "0.0.1", "1.0.0"].includes(version)) return "openMetrics";
  }
  return "text";
}

/**
 * Returns the page with all families that have samples, sorted by name. The samples of a family keep their order.
 * Families of one name are not merged: the caller has one for each name.
 */
export function formatExposition(families: readonly MetricFamily[], format: ExpositionFormat): string {
  const isOpen = format === "openMetrics";
  const labelTexts: LabelTexts = new Map();
  const lines: string[] = [];
  for (const family of families.toSorted((a, b) => compareNames(a.name, b.name))) {
    if (family.samples.length === 0) continue;
    const { name, type } = isOpen ? openMetricsNames(family) : family;
    lines.push(`# HELP ${name} ${escapeHelp(family.help, isOpen)}\n# TYPE ${name} ${type}\n`);
    for (const sample of family.samples) lines.push(sampleLine(family.name, sample, isOpen, labelTexts));
  }
  if (isOpen) lines.push("# EOF\n");
  return lines.join("");
}

interface LabelPart {
  readonly name: string;
  readonly text: string;
}

/** The text of labels that several samples share, and of each of them. */
type LabelTexts = Map<Labels, { readonly parts: readonly LabelPart[]; readonly text: string }>;

const compareNames = (a: string, b: string) => (a < b ? -1 : Number(a > b));

/** OpenMetrics names a counter without its suffix `_total`; a counter that has none is of an unknown type there. */
function openMetricsNames({ name, type }: MetricFamily): { readonly name: string; readonly type: string } {
  if (type === "counter")
    return name.endsWith("_total") ? { name: name.slice(0, -"_total".length), type } : { name, type: "unknown" };
  return { name, type: type === "untyped" ? "unknown" : type };
}

function sampleLine(
  name: string,
  { labels, extraLabels, value, timestampMs, suffix = "" }: Sample,
  isOpen: boolean,
  labelTexts: LabelTexts,
): string {
  const valueText = isOpen ? openMetricsValue(value, suffix) : formatNumber(value);
  const time = timestampMs === undefined ? "" : ` ${isOpen ? openMetricsTime(timestampMs) : Math.trunc(timestampMs)}`;
  return `${name}${suffix}${labelsText(labels, isOpen ? withOpenBound(extraLabels) : extraLabels, labelTexts)} ${valueText}${time}\n`;
}

function labelsText(labels: Labels, extra: Labels | undefined, known: LabelTexts): string {
  let found = known.get(labels);
  if (found === undefined) {
    const parts = labelParts(labels);
    found = { parts, text: inBraces(parts) };
    known.set(labels, found);
  }
  return extra === undefined ? found.text : inBraces([...found.parts, ...labelParts(extra)]);
}

const labelParts = (labels: Labels): readonly LabelPart[] =>
  Object.entries(labels).map(([name, value]) => ({ name, text: `${name}="${escapeLabel(value)}"` }));

/** Sorted by name; nothing if there is none. */
function inBraces(parts: readonly LabelPart[]): string {
  if (parts.length === 0) return "";
  const sorted = parts.toSorted((a, b) => compareNames(a.name, b.name));
  return `{${sorted.map(({ text }) => text).join(",")}}`;
}

function escapeLabel(value: string): string {
  return /["\\\n]/.test(value) ? value.replaceAll(/["\\\n]/g, escaped) : value;
}

function escapeHelp(help: string, isOpen: boolean): string {
  return help.replaceAll(isOpen ? /["\\\n]/g : /[\\\n]/g, escaped);
}

const escaped = (char: string) => (char === "\n" ? "\\n" : `\\${char}`);

/** A number as Go's `strconv.FormatFloat(value, 'g', -1, 64)`: with an exponent below 1e-4 and from 1e6 on. */
function formatNumber(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return String(value);
  const [digits = "", exponent = ""] = value.toExponential().split("e");
  return `${digits}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, "0")}`;
}

/** OpenMetrics writes whole numbers with a point, too: `1.0`. */
function withPoint(number: string): string {
  return /[.eNI]/.test(number) ? number : `${number}.0`;
}

/** Counts of a histogram or a summary are whole numbers, other values are not. Rule: expfmt's writeOpenMetricsSample. */
function openMetricsValue(value: number, suffix: string): string {
  return suffix === "_bucket" || suffix === "_count" ? String(value) : withPoint(formatNumber(value));
}

/** The bound of a bucket is no whole number either: `le="1.0"`. */
function withOpenBound(labels: Labels | undefined): Labels | undefined {
  return labels?.["le"] === undefined ? labels : { ...labels, le: withPoint(labels["le"]) };
}

/** Seconds, where the text format has milliseconds. */
function openMetricsTime(timestampMs: number): string {
  return withPoint(formatNumber(Math.trunc(timestampMs) / 1000));
}
