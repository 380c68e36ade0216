import { afterEach, describe, expect, test } from "bun:test";
import { hostLinkName } from "../../cni/builtin/attachment-names.ts";
import { findLink } from "../../host/netlink/links.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { FakeClock } from "../fakes/clock.ts";
import { type Conf, createNode, ipsOf, NOTHING } from "./builtin-fixture.ts";
import { askTcp, NO_ANSWER, serveTcp } from "./network-connections.ts";
import type { TestNamespace } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: the removal of links, since only root may make network namespaces");

/** At most so long after DEL the agent deletes a link. */
const REMOVAL_DELAY_MS = 2000;

let ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends) end();
  ends = [];
});

/** A node whose agent lives on after a call. */
function createNodeOfDaemon() {
  const node = createNode();
  const deferredRemovalClock = new FakeClock();
  const agent = node.createPlugin(undefined, undefined, deferredRemovalClock);
  ends.push(
    () => agent.close(),
    () => node.close(),
  );
  const linkOf = (containerId: string) => findLink(node.route, hostLinkName("pods", { containerId, ifName: "eth0" }));
  return {
    ...node,
    deferredRemovalClock,
    linkOf,
    ask: (verb: "ADD" | "DEL" | "CHECK", id: object) => node.call(verb, id, agent),
  };
}

/** Lets a pod answer, and returns a function that asks it from the node: `isExpected`, whether it should answer. */
function answerIn({ namespace, ipv4 }: { readonly namespace: TestNamespace; readonly ipv4: string }) {
  const server = serveTcp(namespace, "0.0.0.0", 80);
  ends.unshift(() => server.close());
  return async (node: ReturnType<typeof createNode>, isExpected: boolean) =>
    (await askTcp(node.namespace, ipv4, 80, isExpected)) !== NO_ANSWER;
}

describe.skipIf(!isRoot)("DEL of an agent that lives on", () => {
  test("cuts the pod off at once, and deletes a link that is left later", async () => {
    const node = createNodeOfDaemon();
    const pod = await node.addPod("c1");
    const answers = answerIn(pod);
    expect(await answers(node, true)).toBe(true);
    const { id } = pod;
    await node.ask("DEL", id);
    expect(await answers(node, false)).toBe(false);
    expect(node.leftovers()).toEqual({ ...NOTHING, links: [hostLinkName("pods", { ...id, ifName: "eth0" })] });
    expect(node.linkOf("c1")).toMatchObject({ isUp: false });
    await node.deferredRemovalClock.advance(REMOVAL_DELAY_MS);
    await pollUntil("the link to be gone", 5000, () => node.linkOf("c1") === undefined);
    expect(node.deferredRemovalClock.pendingTimers).toBe(0);
  });

  test("leaves the link to the end of the pod's namespace", async () => {
    const node = createNodeOfDaemon();
    const { id, namespace } = await node.addPod("c1");
    await node.ask("DEL", id);
    namespace.close();
    await pollUntil("the kernel to delete the link", 20_000, () => node.linkOf("c1") === undefined);
    await node.deferredRemovalClock.advance(REMOVAL_DELAY_MS);
    expect(node.leftovers()).toEqual(NOTHING);
  });

  test("lets the next pod have the address while the link is left", async () => {
    const node = createNodeOfDaemon();
    // With room for one pod.
    const change = { ranges: [[{ subnet: "10.88.0.0/30" }]] };
    const { id, ipv4 } = await node.addPod("c1", change);
    await node.ask("DEL", id);
    expect(node.linkOf("c1")).toBeDefined();
    const next = await node.addPod("c2", change);
    expect(next.ipv4).toBe(ipv4);
    const answers = answerIn(next);
    expect(await answers(node, true)).toBe(true);
    await node.deferredRemovalClock.advance(REMOVAL_DELAY_MS);
    await pollUntil("the link to be gone", 5000, () => node.linkOf("c1") === undefined);
    expect(await answers(node, true)).toBe(true);
  });

  test("does not take a pod off that is added again before its link is deleted", async () => {
    const node = createNodeOfDaemon();
    const { id, namespace } = await node.addPod("c1");
    await node.ask("DEL", id);
    const [ipv4 = ""] = ipsOf((await node.ask("ADD", id)) as Conf);
    const answers = answerIn({ namespace, ipv4 });
    await node.deferredRemovalClock.advance(REMOVAL_DELAY_MS);
    await node.ask("CHECK", id);
    expect(node.leftovers()).toMatchObject({ attachments: ["c1"] });
    expect(await answers(node, true)).toBe(true);
  });

  test("ends with the agent: a closed network deletes nothing", async () => {
    const node = createNodeOfDaemon();
    const { id } = await node.addPod("c1");
    await node.ask("DEL", id);
    ends.shift()?.();
    expect(node.deferredRemovalClock.pendingTimers).toBe(0);
    expect(node.linkOf("c1")).toMatchObject({ isUp: false });
  });
});
