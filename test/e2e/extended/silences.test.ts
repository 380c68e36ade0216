import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AuditLog, createAuditLog } from "../../bench/cluster/audit-log.ts";
import { firstSuccessDelayMs } from "../../upstream/http2-gateway.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "../cluster/api-objects.ts";
import { checkOutage } from "../cluster/api-server-outage.ts";
import { type FaultyNetwork, openFaultyNetwork } from "../cluster/faulty-network.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "../cluster/node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("an API server that is silent for minutes");

describe.skipIf(skip !== undefined)("an API server that is silent for minutes", () => {
  let cluster: ClusterNode & { readonly network: FaultyNetwork };
  let auditFolder: string;
  let audit: AuditLog;
  beforeAll(async () => {
    auditFolder = await mkdtemp(join(tmpdir(), "berth-audit-"));
    audit = await createAuditLog(auditFolder);
    cluster = await startClusterNode(openFaultyNetwork, {}, { "kube-apiserver": audit.flags });
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    await rm(auditFolder, { recursive: true });
  });

  test("whose watch is silent while it answers all other requests is watched again within 75 seconds", async () => {
    const { gateway } = cluster.network;
    const isWatch = (request: string) => /\/pods\?.*watch=true/.test(request);
    expect(gateway.mute(({ path }) => isWatch(path))).toBe(1);
    const began = performance.now();
    await cluster.apply([barePod("unheard", {}, { nodeName: "node-a" })]);
    await cluster.waitForPods(
      "it runs",
      "unheard",
      (pods) => pods.length === 1 && pods.every(areContainersReady),
      95_000,
    );
    const watches = gateway.received.filter(({ at, line }) => at >= began && isWatch(line));
    expect(firstSuccessDelayMs(watches, began)).toBeLessThan(75_000);
    await cluster.kubectl("delete", "pod", "unheard", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("behind a dead open connection is reached again within half a minute", async () => {
    const { gateway, relay } = cluster.network;
    expect(relay.blackhole()).toBe(1);
    const began = performance.now();
    await cluster.apply([barePod("fresh", {}, { nodeName: "node-a" })]);
    await cluster.waitForPods(
      "it runs",
      "fresh",
      (pods) => pods.length === 1 && pods.every(areContainersReady),
      45_000,
    );
    const later = gateway.received.filter(({ at }) => at >= began);
    expect(firstSuccessDelayMs(later, began)).toBeLessThan(30_000);
    await cluster.kubectl("wait", "--for=condition=Ready", "node/node-a", "--timeout=5s");
    await cluster.kubectl("delete", "pod", "fresh", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  // The last test, because the controllers need time to recover after it.
  test("changes during a minute without API server are reported right after its return, with another certificate", () =>
    checkOutage(cluster, audit, 60_000));
});
