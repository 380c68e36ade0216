import { expect, test } from "bun:test";
import { type CacheEntry, cacheFileName } from "../cache-entry.ts";
import { parseNetworkConf } from "../conf.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError } from "../error.ts";
import { collectRuntimeGarbage, type RuntimeGarbageDeps } from "./collect-garbage.ts";

const { signal } = new AbortController();
const list = parseNetworkConf(
  JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] }),
  "/c",
);

const entryOf = (containerId: string, changed: Partial<CacheEntry> = {}): CacheEntry => ({
  ...{ network: "pods", containerId, ifName: "eth0", netns: `/run/netns/${containerId}`, config: "{}" },
  ...{ args: new Map([["K8S_POD_INFRA_CONTAINER_ID", containerId]]), capabilityArgs: {}, result: {} },
  ...changed,
});

interface Given {
  readonly entries?: readonly CacheEntry[];
  readonly torn?: readonly string[];
  /** The sandboxes of the runtime: whether each is ready. */
  readonly sandboxes?: Readonly<Record<string, boolean>>;
  /** The containers whose namespaces exist. */
  readonly mounted?: readonly string[];
  readonly conf?: RuntimeGarbageDeps["loadNetwork"];
  readonly failing?: string;
}

/** Collects the garbage of a cache. Returns which DELs were called, and what is said to be deleted. */
async function collect({ entries = [], torn = [], sandboxes = {}, mounted = [], failing, ...given }: Given) {
  const calls: string[] = [];
  let opened = 0;
  const outcome = await collectRuntimeGarbage(
    {
      cache: {
        list: async () => ({
          entries,
          unreadable: torn.map((fileName) => ({ fileName, asideName: `${fileName}.unreadable`, reason: "torn" })),
        }),
      },
      isNamespace: async (path) => mounted.some((name) => path === `/run/netns/${name}`),
      loadNetwork: given.conf ?? (async () => list),
      async openCni() {
        opened += 1;
        return {
          async del(network, attachment, conf) {
            calls.push(
              `${cacheFileName({ network, ...attachment })} by ${conf === undefined ? "the cache" : conf.name}`,
            );
            if (attachment.containerId === failing) throw new CniError(100, "busy", { plugin: "bridge" });
          },
        };
      },
    },
    { isReady: new Map(Object.entries(sandboxes)) },
    signal,
  ).then(
    ({ deleted }) => deleted.map(({ containerId }) => containerId),
    (error: unknown) => String(error),
  );
  return { calls, outcome, opened };
}

const nothing = { calls: [], outcome: [], opened: 0 };

test.each<[string, Given]>([
  ["an empty cache", {}],
  ["of a pod whose namespace exists, of this runtime or of another one", { entries: [entryOf("a")], mounted: ["a"] }],
  ["of a sandbox that is ready", { entries: [entryOf("a")], sandboxes: { a: true } }],
  [
    "of a sandbox that is not ready, for which the runtime calls DEL",
    { entries: [entryOf("a")], sandboxes: { a: false } },
  ],
  ["of no pod, as berth cni add makes it", { entries: [entryOf("a", { args: new Map() })] }],
  ["without a namespace", { entries: [entryOf("a", { netns: "" })] }],
  ["of the delegate, which belongs to another agent", { entries: [entryOf("a", { network: DELEGATE_NETWORK })] }],
  ["whose file is torn, of a sandbox of the runtime", { torn: ["pods-a-eth0"], sandboxes: { a: false } }],
  ["whose file is torn, of another network", { torn: ["other-a-eth0"] }],
  ["whose file is torn, without a list", { torn: ["pods-a-eth0"], conf: async () => undefined }],
])("an attachment stays: %s", async (_name, given) => {
  expect(await collect(given)).toEqual(nothing);
});

test("an attachment whose sandbox and namespace are gone is deleted as the cache has it", async () => {
  const entries = [entryOf("a"), entryOf("b", { network: "old" }), entryOf("c")];
  expect(await collect({ entries, mounted: ["c"] })).toEqual({
    calls: ["pods-a-eth0 by the cache", "old-b-eth0 by the cache"],
    outcome: ["a", "b"],
    opened: 1,
  });
});

test("an attachment whose file is torn is deleted by the list of now, once its sandbox is gone", async () => {
  expect(await collect({ torn: ["pods-a-eth0", "other-b-eth0"] })).toEqual({
    calls: ["pods-a-eth0 by pods"],
    outcome: ["a"],
    opened: 1,
  });
});

test("the others are deleted after a plugin has failed", async () => {
  expect(await collect({ entries: [entryOf("a"), entryOf("b")], failing: "a" })).toEqual({
    calls: ["pods-a-eth0 by the cache", "pods-b-eth0 by the cache"],
    outcome: expect.stringContaining("busy"),
    opened: 1,
  });
});
