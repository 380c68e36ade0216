import { expect, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { createScreen } from "./live-table.ts";

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

/** What was written, each call a piece. */
function fake(terminal: { readonly isTTY?: boolean; columns?: number; rows?: number } = {}) {
  const written: string[] = [];
  const output = Object.assign(terminal, { write: (text: string) => written.push(text) });
  return { written, screen: createScreen(output, () => noon), terminal };
}

test("in a file a table is written whole, and again only when a row has changed", () => {
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

test("on a terminal a table takes the place of the one before, and what is too wide is cut", () => {
  const { written, screen } = fake({ isTTY: true, columns: 60, rows: 24 });
  screen.show({ pods: [failed] });
  screen.show({ pods: [waiting] });
  expect(written.map((text) => text.split("\n"))).toEqual([
    [
      "12:00:00",
      "NAMESPACE  POD       READY  STATE         RESTARTS  IP  AGE…",
      "default    web-node  0/1    ErrImagePull  0         -   30s…",
      "",
      `web-node: no such image ${"x".repeat(6)}…${"x".repeat(21)} refused`,
      "",
    ],
    [
      "\r\u001b[5A\u001b[J12:00:00",
      "NAMESPACE  POD       READY  STATE             RESTARTS  IP …",
      "default    web-node  0/1    ImagePullBackOff  0         -  …",
      "",
      `web-node: back-off ${"x".repeat(11)}…${"x".repeat(29)}`,
      "",
    ],
  ]);
});

test("a terminal that was made narrower has wrapped what is shown", () => {
  const { written, screen, terminal } = fake({ isTTY: true, columns: 60, rows: 24 });
  screen.show({ pods: [failed] });
  terminal.columns = 30;
  screen.show({ pods: [failed] });
  // Three lines of 60 take six rows of 30, beside the time and the empty line.
  expect(written[1]).toStartWith("\r\u001b[8A\u001b[J12:00:00\n");
});

test("a terminal that is too low for all pods is told how much is missing", () => {
  const { written, screen } = fake({ isTTY: true, columns: 80, rows: 5 });
  screen.show({ pods: Array.from({ length: 10 }, () => web) });
  const lines = written[0]!.split("\n");
  expect(lines.slice(3)).toEqual(["… and 9 more lines", ""]);
});

test("what a pod says cannot move the cursor", () => {
  const { written, screen } = fake({ isTTY: true, columns: 80, rows: 24 });
  screen.show({ pods: [{ ...web, message: "a\u001b[2Jb" }] });
  expect(written[0]).toContain(String.raw`web-node: a\u001b[2Jb`);
});
