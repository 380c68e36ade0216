import { expect, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { createLiveTable } from "./live-table.ts";

const noon = new Date(2026, 0, 1, 12, 0, 0).getTime();
const web: PodSummary = {
  namespace: "default",
  name: "web-node",
  uid: "u",
  phase: "Pending",
  reason: "",
  message: "",
  ready: "0/1",
  restarts: 0,
  ip: "",
  startTime: new Date(noon - 30_000).toISOString(),
  steps: [],
  status: {},
};
const failed: PodSummary = { ...web, reason: "ErrImagePull", message: `no such image ${"x".repeat(280)} refused` };
const waiting: PodSummary = { ...web, reason: "ImagePullBackOff", message: `back-off ${"x".repeat(280)}` };

/** An output that records each write. */
function fake(terminal: { readonly isTTY?: boolean; columns?: number; rows?: number } = {}) {
  const written: string[] = [];
  const output = Object.assign(terminal, { write: (text: string) => written.push(text) });
  return { written, screen: createLiveTable(output, "dist/berth pods", () => noon), terminal };
}

test("a file gets the full table, and another one only when a row changes", () => {
  const { written, screen } = fake();
  screen.show({ pods: [failed] });
  screen.show({ pods: [{ ...failed, message: "back-off 20s" }] });
  expect(written).toHaveLength(1);
  expect(written[0]).toStartWith("12:00:00\nNAMESPACE");
  expect(written[0]).toContain("x".repeat(280));
  screen.show({ pods: [waiting] });
  expect(written).toHaveLength(2);
  expect(written[1]).not.toContain("\u001b");
});

test("on a terminal a table replaces the one before, and lines fit the width", () => {
  const { written, screen } = fake({ isTTY: true, columns: 60, rows: 24 });
  screen.show({ pods: [failed] });
  screen.show({ pods: [waiting] });
  expect(written.map((text) => text.split("\n"))).toEqual([
    [
      "12:00:00",
      "POD       READY  STATE              RESTARTS  IP  AGE",
      "web-node  0/1    ErrImagePull       0         -   30s",
      "",
      `web-node: no such image ${"x".repeat(6)}…${"x".repeat(21)} refused`,
      "",
      "not shown in 60 columns: START…CE; see dist/berth pods | cat",
      "",
    ],
    [
      "\r\u001b[7A\u001b[J12:00:00",
      "POD       READY  STATE              RESTARTS  IP  AGE",
      "web-node  0/1    ImagePullBackOff   0         -   30s",
      "",
      `web-node: back-off ${"x".repeat(11)}…${"x".repeat(29)}`,
      "",
      "not shown in 60 columns: START…CE; see dist/berth pods | cat",
      "",
    ],
  ]);
});

test("a narrower terminal has wrapped the shown lines, so the cursor moves up further", () => {
  const { written, screen, terminal } = fake({ isTTY: true, columns: 60, rows: 24 });
  screen.show({ pods: [failed] });
  terminal.columns = 30;
  screen.show({ pods: [failed] });
  // Four lines of up to 60 take eight rows of 30, beside the time and two empty lines.
  expect(written[1]).toStartWith("\r\u001b[11A\u001b[J12:00:00\n");
});

test("a terminal with too few rows shows how many lines are missing", () => {
  const { written, screen } = fake({ isTTY: true, columns: 80, rows: 5 });
  screen.show({ pods: Array.from({ length: 10 }, () => web) });
  const lines = written[0]!.split("\n");
  expect(lines.slice(3)).toEqual(["… and 9 more lines", ""]);
});

test("control characters in a pod's message cannot move the cursor", () => {
  const { written, screen } = fake({ isTTY: true, columns: 80, rows: 24 });
  screen.show({ pods: [{ ...web, message: "a\u001b[2Jb" }] });
  expect(written[0]).toContain(String.raw`web-node: a\u001b[2Jb`);
});
