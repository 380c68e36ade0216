import { expect, test } from "bun:test";
import { agentLogSteps } from "./agent-log-steps.ts";

const log = `12:00:00.900 info  make the data directory  pod=default/web uid=u0 ms=1
12:00:01.004 info  make the data directory  pod=default/web uid=u1 ms=3
12:00:01.005 info  make the data directory  pod=default/other uid=u2 ms=3
12:00:01.090 info  run the sandbox  pod=default/web uid=u1 ms=81
12:00:01.160 info  the pod is Running  pod=default/web uid=u1
12:00:01.150 warn  failed to start the container  pod=default/web uid=u1 ms=3
`;

test("an action of the pod is a step that ends with its line, unless it is one CRI call", () => {
  const createdAt = Date.parse("2026-01-02T12:00:01Z");
  const call = { of: "runtime", what: "RunPodSandbox", from: 10, until: 89 } as const;
  expect(agentLogSteps(log, "web", { createdAt, readyAt: createdAt + 170 }, [call])).toEqual([
    { of: "agent", what: "make the data directory", from: 1, until: 4 },
  ]);
});
