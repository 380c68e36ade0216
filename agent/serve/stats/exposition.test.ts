import { describe, expect, test } from "bun:test";
import { type expositionTypes, formatExposition, type MetricFamily, negotiateExposition } from "./exposition.ts";

const gaugeOf = (value: number): MetricFamily => ({
  name: "a_gauge",
  help: "A gauge.",
  type: "gauge",
  samples: [{ labels: {}, value }],
});
const valueLine = (value: number, format: "text" | "openMetrics" = "text") =>
  formatExposition([gaugeOf(value)], format)
    .split("\n")[2]
    ?.slice("a_gauge ".length);

describe("numbers are written as Go writes them", () => {
  const rows: readonly (readonly [value: number, text: string, inOpenMetrics: string])[] = [
    [0, "0", "0.0"],
    [1, "1", "1.0"],
    [-1, "-1", "-1.0"],
    [0.25, "0.25", "0.25"],
    [999_999, "999999", "999999.0"],
    [100_000.5, "100000.5", "100000.5"],
    [1_000_000, "1e+06", "1e+06"],
    [1_234_567, "1.234567e+06", "1.234567e+06"],
    [123_456_789.25, "1.2345678925e+08", "1.2345678925e+08"],
    [1e21, "1e+21", "1e+21"],
    [0.0001, "0.0001", "0.0001"],
    [0.000_01, "1e-05", "1e-05"],
    [0.000_015, "1.5e-05", "1.5e-05"],
    [Number.POSITIVE_INFINITY, "+Inf", "+Inf"],
    [Number.NEGATIVE_INFINITY, "-Inf", "-Inf"],
    [Number.NaN, "NaN", "NaN"],
  ];
  for (const [value, text, inOpenMetrics] of rows)
    test(text, () => {
      expect(valueLine(value)).toBe(text);
      expect(valueLine(value, "openMetrics")).toBe(inOpenMetrics);
    });
});

const families: readonly MetricFamily[] = [
  {
    name: "z_total",
    help: 'Backslash \\, quote " and\nnew line.',
    type: "counter",
    samples: [
      {
        labels: { pod: 'a"b\\c\nd', container: "" },
        extraLabels: { cpu: "total" },
        value: 2,
        timestampMs: 1_700_000_000_123,
      },
      { labels: { pod: "x", container: "y" }, value: 3 },
    ],
  },
  { name: "empty", help: "Has no samples.", type: "gauge", samples: [] },
  {
    name: "h_seconds",
    help: "A histogram.",
    type: "histogram",
    samples: [
      { labels: {}, suffix: "_bucket", extraLabels: { le: "0.5" }, value: 0 },
      { labels: {}, suffix: "_bucket", extraLabels: { le: "10" }, value: 1_000_000 },
      { labels: {}, suffix: "_bucket", extraLabels: { le: "+Inf" }, value: 1 },
      { labels: {}, suffix: "_sum", value: 0.5 },
      { labels: {}, suffix: "_count", value: 1 },
    ],
  },
];

test("the text format has families by name, labels by name, and everything escaped", () => {
  expect(formatExposition(families, "text")).toBe(
    [
      "# HELP h_seconds A histogram.",
      "# TYPE h_seconds histogram",
      'h_seconds_bucket{le="0.5"} 0',
      'h_seconds_bucket{le="10"} 1e+06',
      'h_seconds_bucket{le="+Inf"} 1',
      "h_seconds_sum 0.5",
      "h_seconds_count 1",
      '# HELP z_total Backslash \\\\, quote " and\\nnew line.',
      "# TYPE z_total counter",
      'z_total{container="",cpu="total",pod="a\\"b\\\\c\\nd"} 2 1700000000123',
      'z_total{container="y",pod="x"} 3',
      "",
    ].join("\n"),
  );
});

test("OpenMetrics names a counter without its suffix, has seconds, bounds with a point and whole counts, and ends with EOF", () => {
  expect(formatExposition(families, "openMetrics")).toBe(
    [
      "# HELP h_seconds A histogram.",
      "# TYPE h_seconds histogram",
      'h_seconds_bucket{le="0.5"} 0',
      'h_seconds_bucket{le="10.0"} 1000000',
      'h_seconds_bucket{le="+Inf"} 1',
      "h_seconds_sum 0.5",
      "h_seconds_count 1",
      '# HELP z Backslash \\\\, quote \\" and\\nnew line.',
      "# TYPE z counter",
      'z_total{container="",cpu="total",pod="a\\"b\\\\c\\nd"} 2.0 1.700000000123e+09',
      'z_total{container="y",pod="x"} 3.0',
      "# EOF",
      "",
    ].join("\n"),
  );
});

describe("the header Accept selects the format", () => {
  const prometheus =
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
  const rows: readonly (readonly [accept: string | undefined, format: keyof typeof expositionTypes])[] = [
    [undefined, "text"],
    ["", "text"],
    ["*/*", "text"],
    ["text/plain", "text"],
    ["application/json", "text"],
    [prometheus, "openMetrics"],
    ["text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4", "text"],
    ["text/plain;q=0.1,application/openmetrics-text;version=1.0.0", "openMetrics"],
    ["application/openmetrics-text;version=9", "text"],
    ["application/openmetrics-text;q=0", "text"],
    ["application/openmetrics-text;q=nonsense,text/plain", "text"],
    [",;;=,", "text"],
  ];
  for (const [accept, format] of rows)
    test(`${accept}`, () => {
      expect(negotiateExposition(accept)).toBe(format);
    });
});
