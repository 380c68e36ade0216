import { afterEach, expect, test } from "bun:test";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createPlainApi, type PlainApi } from "../../../test/fakes/plain-api.ts";
import { createHealthRoutes } from "../api/endpoints/health.ts";
import { createHealthRecorder } from "./health-recorder.ts";
import { createKubeletMetrics } from "./kubelet-metrics.ts";
import { createMetricsRoutes } from "./metrics-routes.ts";

let api: PlainApi;
afterEach(() => api.stop());

test("/metrics/slis has the last result of each check and counts all of them, until DELETE resets it", async () => {
  let isLate = false;
  const syncloop = {
    name: "syncloop",
    check() {
      if (isLate) throw new Error("sync Loop took longer than expected");
    },
  };
  const metrics = createKubeletMetrics();
  const { health, probes } = metrics;
  api = await createPlainApi(
    [
      ...createHealthRoutes([{ name: "ping", check() {} }, syncloop], createHealthRecorder(metrics)),
      ...createMetricsRoutes({
        ...{ kubelet: async () => [], probes: probes.families, health: health.families },
        resetHealth: () => health.clear("kubernetes_healthchecks_total"),
      }),
    ],
    new FakeLog(),
  );
  expect((await api.get("/metrics/slis")).text).toBe("");
  await api.get("/healthz");
  await api.get("/healthz?exclude=ping");
  await api.get("/healthz/syncloop");
  isLate = true;
  await api.get("/healthz");
  expect((await api.get("/metrics/slis")).text).toBe(
    `# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name="ping",type="healthz"} 1
kubernetes_healthcheck{name="syncloop",type="healthz"} 0
# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
# TYPE kubernetes_healthchecks_total counter
kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2
kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 1
kubernetes_healthchecks_total{name="syncloop",status="success",type="healthz"} 2
`,
  );
  const reset = await api.send("DELETE", "/metrics/slis");
  expect([reset.status, reset.text]).toEqual([200, "metrics reset\n"]);
  expect((await api.get("/metrics/slis")).text).not.toContain("kubernetes_healthchecks_total");
});
