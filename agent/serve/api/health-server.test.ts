import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { createClock } from "../../../host/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createHealthChecks } from "./endpoints/health-checks.ts";
import { createHealthServer, type HealthServer } from "./health-server.ts";

let server: HealthServer;
let url: string;
let figures: { syncDelayMs: number; logBlockedMs: number };
const checks = createHealthChecks({
  longestSyncDelayMs: () => figures.syncDelayMs,
  logBlockedMs: () => figures.logBlockedMs,
});
beforeEach(async () => {
  figures = { syncDelayMs: 0, logBlockedMs: 0 };
  server = createHealthServer({ checks, recordResult() {}, clock: createClock(), log: new FakeLog() });
  url = `http://127.0.0.1:${await server.listen(0, "127.0.0.1")}`;
});
afterEach(() => server.stop());

test.each(["/healthz", "/healthz/ping", "/healthz/log", "/healthz/syncloop"])("%s answers ok", async (path) => {
  const answer = await fetch(`${url}${path}`);
  expect([answer.status, await answer.text()]).toEqual([200, "ok"]);
});

test("verbose names the checks, and those that do not exist", async () => {
  const answer = await fetch(`${url}/healthz?verbose&exclude=nothing`);
  expect(await answer.text()).toBe(
    '[+]ping ok\n[+]log ok\n[+]syncloop ok\nwarn: some health checks cannot be excluded: no matches for "nothing"\nhealthz check passed\n',
  );
});

test.each(["/", "/pods", "/metrics", "/configz", "/logs/", "/debug/pprof/heap", "/stats/summary", "/exec/a/b/c"])(
  "%s is not there: the port has no authentication, so that it serves health only",
  async (path) => {
    for (const method of ["GET", "POST"])
      expect([(await fetch(`${url}${path}`, { method })).status, method]).toEqual([404, method]);
  },
);

const late = "internal server error: sync Loop took longer than expected\n";
const blocked = "internal server error: logging blocked\n";
test.each([
  [{ syncDelayMs: 300_000, logBlockedMs: 119_999 }, "[+]log ok\n[+]syncloop ok", ["ok", "ok"]],
  [{ syncDelayMs: 300_001 }, "[+]log ok\n[-]syncloop failed: reason withheld", ["ok", late]],
  [{ logBlockedMs: 120_000 }, "[-]log failed: reason withheld\n[+]syncloop ok", [blocked, "ok"]],
])("a sync may be late by five minutes, and the log blocked for two: %j", async (given, lines, texts) => {
  Object.assign(figures, given);
  const answer = await fetch(`${url}/healthz?verbose`);
  const isHealthy = !lines.includes("[-]");
  const text = `[+]ping ok\n${lines}\nhealthz check ${isHealthy ? "passed" : "failed"}\n`;
  expect([answer.status, await answer.text()]).toEqual([isHealthy ? 200 : 500, text]);
  const each = await Promise.all(["log", "syncloop"].map((name) => fetch(`${url}/healthz/${name}`)));
  expect(await Promise.all(each.map((part) => part.text()))).toEqual(texts);
});

test("clients that hold all connections with half a request do not keep health checks from their answer", async () => {
  const sockets = await Promise.all(
    Array.from(
      { length: 64 },
      () =>
        new Promise<Socket>((resolve) => {
          const socket = connect(Number(new URL(url).port), "127.0.0.1", () =>
            socket.write("GET /healthz HTTP/1.1\r\n", () => resolve(socket)),
          );
          socket.on("error", () => {
            // The server closes the oldest.
          });
        }),
    ),
  );
  expect(await (await fetch(`${url}/healthz`)).text()).toBe("ok");
  for (const socket of sockets) socket.destroy();
});

test("a port that is in use is an error", async () => {
  const other = createHealthServer({ checks, recordResult() {}, clock: createClock(), log: new FakeLog() });
  await expect(other.listen(Number(new URL(url).port), "127.0.0.1")).rejects.toMatchObject({ code: "EADDRINUSE" });
});
