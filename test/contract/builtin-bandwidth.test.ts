import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createNode, NOTHING } from "./builtin-fixture.ts";
import { outputIn, type TestNamespace } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: bandwidth, since only root may make network namespaces");

let node: ReturnType<typeof createNode>;
beforeEach(() => {
  if (isRoot) node = createNode();
});
afterEach(() => {
  if (isRoot) node.close();
});

const BITS = 8;
const RATE_BYTES = 1_000_000;
const BURST_BYTES = 100_000;
const SENT_BYTES = 1_500_000;
/** What is sent beyond the burst takes its time; the last packets may be on their way. */
const MIN_SECONDS = (0.8 * (SENT_BYTES - BURST_BYTES)) / RATE_BYTES;
const limit = (direction: "ingress" | "egress") => ({
  runtimeConfig: { bandwidth: { [`${direction}Rate`]: BITS * RATE_BYTES, [`${direction}Burst`]: BITS * BURST_BYTES } },
});

/** Sends bytes from one namespace to a server in another. Resolves with the seconds until all have arrived. */
async function secondsToSend(from: TestNamespace, to: TestNamespace, address: string): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  let received = 0;
  let startedMs = 0;
  const server = to.run(() =>
    Bun.listen({
      hostname: "0.0.0.0",
      port: 80,
      socket: {
        data(_socket, bytes) {
          received += bytes.length;
          if (received === SENT_BYTES) resolve((performance.now() - startedMs) / 1000);
        },
      },
    }),
  );
  let rest: Uint8Array = new Uint8Array(SENT_BYTES);
  const send = (socket: { write(bytes: Uint8Array): number }) => {
    rest = rest.subarray(socket.write(rest));
  };
  const client = await from.run(() => {
    startedMs = performance.now();
    return Bun.connect({ hostname: address, port: 80, socket: { open: send, drain: send, data: () => undefined } });
  });
  try {
    return await promise;
  } finally {
    client.terminate();
    server.stop(true);
  }
}

describe.skipIf(!isRoot)("bandwidth", () => {
  test("of what a pod receives is limited, and what it sends is not", async () => {
    const limited = await node.addPod("c1", limit("ingress"));
    const other = await node.addPod("c2");
    expect(await secondsToSend(other.namespace, limited.namespace, limited.ipv4)).toBeGreaterThan(MIN_SECONDS);
    expect(await secondsToSend(limited.namespace, other.namespace, other.ipv4)).toBeLessThan(MIN_SECONDS);
  });

  test("of what a pod sends is limited on the node, and what it receives is not", async () => {
    const limited = await node.addPod("c1", limit("egress"));
    const other = await node.addPod("c2");
    expect(await secondsToSend(limited.namespace, other.namespace, other.ipv4)).toBeGreaterThan(MIN_SECONDS);
    expect(await secondsToSend(other.namespace, limited.namespace, limited.ipv4)).toBeLessThan(MIN_SECONDS);
    expect(outputIn(limited.namespace, "tc", "qdisc", "show", "dev", "eth0")).not.toContain("tbf");
  });

  test("leaves nothing when the pod is gone", async () => {
    const pod = await node.addPod("c1", limit("egress"));
    expect(node.leftovers().links).toHaveLength(2);
    await node.call("DEL", pod.id);
    expect(node.leftovers()).toEqual(NOTHING);
  });

  test("of a large burst is what the kernel can count", async () => {
    const bandwidth = {
      ingressRate: 10 ** 11,
      ingressBurst: 2 ** 32 - 1,
      egressRate: 10 ** 11,
      egressBurst: 2 ** 32 - 1,
    };
    await node.addPod("c1", { runtimeConfig: { bandwidth } });
    expect(outputIn(node.namespace, "tc", "qdisc", "show")).toContain("rate 100Gbit");
  });
});
