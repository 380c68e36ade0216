import { afterEach, beforeEach, expect, test } from "bun:test";
import { createClock } from "../../../host/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createHealthServer, type HealthServer } from "./health-server.ts";

let server: HealthServer;
let url: string;
beforeEach(async () => {
  server = createHealthServer({ clock: createClock(), log: new FakeLog() });
  url = `http://127.0.0.1:${await server.listen(0, "127.0.0.1")}`;
});
afterEach(() => server.stop());

test.each(["/healthz", "/healthz/ping"])("%s answers ok", async (path) => {
  const answer = await fetch(`${url}${path}`);
  expect([answer.status, await answer.text()]).toEqual([200, "ok"]);
});

test("verbose names the checks, and those that do not exist", async () => {
  const answer = await fetch(`${url}/healthz?verbose&exclude=nothing`);
  expect(await answer.text()).toBe(
    '[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "nothing"\nhealthz check passed\n',
  );
});

test.each([
  "/",
  "/pods",
  "/healthz/syncloop",
  "/metrics",
  "/configz",
  "/logs/",
  "/debug/pprof/heap",
  "/stats/summary",
  "/exec/a/b/c",
])("%s is not there: the port has no authentication, so that it serves health only", async (path) => {
  for (const method of ["GET", "POST"])
    expect([(await fetch(`${url}${path}`, { method })).status, method]).toEqual([404, method]);
});

test("a port that is in use is an error", async () => {
  const other = createHealthServer({ clock: createClock(), log: new FakeLog() });
  await expect(other.listen(Number(new URL(url).port), "127.0.0.1")).rejects.toMatchObject({ code: "EADDRINUSE" });
});
