import { describe, expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods, type Selector } from "../../kube/resource.ts";
import type { Connection } from "../../kube/transport/connection.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { until } from "../bed/poll-until.ts";
import { type KubeScene, namespace } from "./kube-fixture.ts";

/** A connection with somebody in the middle, who may cut watches and change what they ask for. */
function meddle(connection: Connection) {
  const cuts = new Set<() => void>();
  let change = (query: Readonly<Record<string, string | undefined>>) => query;
  const meddling: Connection = {
    request: (request) => connection.request(request),
    state: () => connection.state(),
    close: () => connection.close(),
    async lines(request, onLine, opened) {
      const own = new AbortController();
      let isCut = false;
      const cut = () => {
        isCut = true;
        own.abort();
      };
      const onAbort = () => own.abort();
      request.signal?.addEventListener("abort", onAbort, { once: true });
      cuts.add(cut);
      const query = change(request.query ?? {});
      const error = await connection.lines({ ...request, query, signal: own.signal }, onLine, opened);
      cuts.delete(cut);
      request.signal?.removeEventListener("abort", onAbort);
      return isCut ? new KubeError("UNREACHABLE", "cut by the test") : error;
    },
  };
  return {
    connection: meddling,
    cut: () => {
      for (const cut of cuts) cut();
    },
    askInstead: (other: typeof change) => {
      change = other;
    },
  };
}

/** What a follow tells, through cuts and losses. */
export function followContract(scene: KubeScene): void {
  const { connection, kube, kubeOn, forget, fresh, createPod, patchStatus, remove, bind } = scene;

  describe("a follow", () => {
    /** Follows until the end of the test, and keeps what is told as text. */
    async function following(
      selector: Selector,
      body: (scene: {
        told: string[];
        hear: (...lines: readonly string[]) => Promise<void>;
        meddler: ReturnType<typeof meddle>;
      }) => Promise<void>,
      prepare: (meddler: ReturnType<typeof meddle>) => void = () => {},
    ): Promise<void> {
      const meddler = meddle(connection);
      prepare(meddler);
      const told: string[] = [];
      const controller = new AbortController();
      const nameOf = ({ metadata }: Pod) => metadata.name!;
      const listener = {
        replaced: (objects: readonly Pod[]) =>
          void told.push(`replaced: ${objects.map(nameOf).toSorted().join(" ")}`.trim()),
        changed(kind: string, pod: Pod) {
          const { deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
          const ending = deletionTimestamp === undefined ? "" : ` ending in ${deletionGracePeriodSeconds} s`;
          told.push(`${kind} ${nameOf(pod)}${ending}`);
        },
        away: (error: KubeError) => void told.push(`away: ${error.code}`),
        back: () => void told.push("back"),
      };
      const end = kubeOn(meddler.connection).follow(pods(namespace), selector, listener, controller.signal);
      const hear = async (...lines: readonly string[]) => {
        await until(`${lines} after ${told}`, 20_000, () => told.length >= lines.length);
        expect(told.splice(0)).toEqual([...lines]);
      };
      try {
        await body({ told, hear, meddler });
      } finally {
        controller.abort();
        await end;
      }
    }

    test("tells what there is, and every change in order", async () => {
      const fieldSelector = "spec.nodeName=contract-follow";
      const first = await createPod({ name: "follow-first", nodeName: "contract-follow" });
      await following({ fieldSelector }, async ({ hear }) => {
        await hear("replaced: follow-first");
        await createPod({ name: "follow-second", nodeName: "contract-follow" });
        await createPod({ name: "follow-stranger" });
        await patchStatus(first, { phase: "Running" });
        await hear("added follow-second", "modified follow-first");
        await remove(first, 10);
        await remove(first, 0);
        await hear(
          "modified follow-first ending in 10 s",
          "modified follow-first ending in 0 s",
          "deleted follow-first ending in 0 s",
        );
      });
    });

    test("tells of one object by its name, before it is there and after it is gone", async () => {
      await createPod({ name: "follow-one-other" });
      await following({ fieldSelector: "metadata.name=follow-one" }, async ({ hear }) => {
        await hear("replaced:");
        const one = await createPod({ name: "follow-one", nodeName: "" });
        await createPod({ name: "follow-one-more" });
        await hear("added follow-one");
        await remove(one, 0);
        await hear("modified follow-one ending in 0 s", "deleted follow-one ending in 0 s");
        await createPod({ name: "follow-one", nodeName: "" });
        await hear("added follow-one");
      });
    });

    test("tells what comes under its selector as added, and what leaves it as deleted", async () => {
      const labels = { of: "selector" };
      const pod = await createPod({ name: "selected", nodeName: "", labels });
      const selector = { fieldSelector: "spec.nodeName=contract-selector", labelSelector: "of=selector" };
      await following(selector, async ({ hear }) => {
        await hear("replaced:");
        await bind(pod, "contract-selector");
        await hear("added selected");
        await kube.patch(pods(namespace), "selected", {
          type: "merge",
          body: { metadata: { labels: { of: null } } },
        });
        await hear("deleted selected");
      });
    });

    for (const [how, prepare] of [
      ["with initial events", () => {}],
      [
        "with lists",
        (meddler: ReturnType<typeof meddle>) => meddler.askInstead(({ resourceVersionMatch: _, ...query }) => query),
      ],
    ] as const)
      test(`${how} goes on where it was cut and misses nothing`, async () => {
        const nodeName = `contract-${fresh()}`;
        const pod = await createPod({ nodeName });
        const name = pod.metadata.name!;
        await following(
          { fieldSelector: `spec.nodeName=${nodeName}` },
          async ({ hear, meddler }) => {
            await hear(`replaced: ${name}`);
            await patchStatus(pod, { phase: "Running" });
            await hear(`modified ${name}`);
            meddler.cut();
            const late = await createPod({ nodeName });
            await remove(pod, 0);
            await hear(
              "away: UNREACHABLE",
              "back",
              `added ${late.metadata.name}`,
              `modified ${name} ending in 0 s`,
              `deleted ${name} ending in 0 s`,
            );
          },
          prepare,
        );
      });

    test("tells everything anew when its place was forgotten", async () => {
      const nodeName = "contract-forgotten";
      const [kept, gone] = [await createPod({ nodeName }), await createPod({ nodeName })];
      await following({ fieldSelector: `spec.nodeName=${nodeName}` }, async ({ told, hear, meddler }) => {
        await hear(
          `replaced: ${[kept, gone]
            .map(({ metadata }) => metadata.name)
            .toSorted()
            .join(" ")}`,
        );
        meddler.askInstead((query) => {
          // As after an outage in which much has happened.
          return query["resourceVersion"] === undefined
            ? query
            : { ...query, resourceVersion: kept.metadata.resourceVersion };
        });
        meddler.cut();
        await remove(gone, 0);
        await forget();
        const again = `replaced: ${kept.metadata.name}`;
        await until(`${again} after ${told}`, 30_000, () => told.includes(again));
        expect(told.filter((line) => !/^(away|back|replaced)/.test(line))).toEqual([]);
      });
    });
  });
}
