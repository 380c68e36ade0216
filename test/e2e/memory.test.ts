import { afterAll, beforeAll, test } from "bun:test";
import { pollUntil } from "../bed/poll-until.ts";
import { startTcpServer, type TcpServer } from "../fakes/tcp-server.ts";
import { expectSameMemory, MORE_ROUNDS, memoryAtRest } from "./memory-at-rest.ts";
import { shortPod, usualPod } from "./memory-pods.ts";
import { isReady, startNode, type TestNode } from "./node.ts";

/** After so many pods the memory is compared with that after `BASE` pods. */
const PODS = Number(process.env["BERTH_MEMORY_PODS"] ?? 400);
const BASE = 200;
const AT_ONCE = 50;
/** One pod in so many has volumes, probes, and a hook or a network. Such pods take the runtime three times as long. */
const USUAL_EVERY = 5;
/** A busy machine takes so long for one pod. */
const SLOW_POD_MS = 4000;

let node: TestNode;
let server: TcpServer;
beforeAll(async () => {
  server = await startTcpServer((socket) => socket.end());
  node = await startNode();
}, 600_000);
afterAll(async () => {
  await node?.tearDown();
  server?.close();
}, 60_000);

/** Starts `AT_ONCE` pods, waits until the usual ones are ready and the others have ended, and removes them. */
async function churn(first: number): Promise<void> {
  const pods = Array.from({ length: AT_ONCE }, (_, at) =>
    at % USUAL_EVERY === 0
      ? usualPod(`usual-${first + at}`, at / USUAL_EVERY, server.port)
      : shortPod(`short-${first + at}`),
  );
  await Promise.all(pods.map((pod) => node.putManifest(pod)));
  const limitMs = AT_ONCE * SLOW_POD_MS;
  let others: readonly string[] = [];
  const hasSettled = async () => {
    const listed = await node.pods();
    others = listed
      .filter((pod) => (pod.name.startsWith("usual-") ? !isReady(pod) : pod.phase !== "Succeeded"))
      .map(({ name, phase, reason, message }) => `${name} ${phase} ${reason} ${message}`);
    return listed.length === AT_ONCE && others.length === 0;
  };
  await pollUntil("all pods to end or to be ready", limitMs, hasSettled, 100).catch((cause: unknown) => {
    throw new Error(`these pods have neither succeeded nor become ready: ${others.join(", ")}`, { cause });
  });
  await Promise.all(pods.map(({ metadata }) => node.removeFile(`${metadata.name}.yaml`)));
  await pollUntil("all pods to be gone", limitMs, async () => (await node.pods()).length === 0, 100);
}

test(
  `the memory after ${PODS} pods that have come and gone is that after ${BASE}`,
  () => expectSameMemory({ pods: PODS, base: BASE, atOnce: AT_ONCE, read: () => memoryAtRest(node.agent.pid), churn }),
  (PODS + MORE_ROUNDS * AT_ONCE) * 2 * SLOW_POD_MS,
);
