import { describe, expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods, type Selector } from "../../kube/resource.ts";
import type { KubeConnection } from "../../kube/transport/connection.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type KubeFixture, namespace } from "./kube-fixture.ts";

/** A connection through a proxy that can break watches and change their query. */
function interceptWatches(connection: KubeConnection) {
  const cuts = new Set<() => void>();
  let change = (query: Readonly<Record<string, string | undefined>>) => query;
  const intercepted: KubeConnection = {
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
    connection: intercepted,
    breakWatches: () => {
      for (const cut of cuts) cut();
    },
    changeQuery: (other: typeof change) => {
      change = other;
    },
  };
}

/** The contract of list and watch: what a reflector reports, also after broken watches and a compaction. */
export function reflectorContract(fixture: KubeFixture): void {
  const { connection, kube, kubeOn, forget, fresh, createPod, patchStatus, deletePod, bindPod } = fixture;

  describe("a reflector", () => {
    /** Runs a reflector until the end of the test; `reports` collects its reports as text. */
    async function withReflector(
      selector: Selector,
      body: (fixture: {
        reports: string[];
        expectReports: (...lines: readonly string[]) => Promise<void>;
        interceptor: ReturnType<typeof interceptWatches>;
      }) => Promise<void>,
      prepare: (interceptor: ReturnType<typeof interceptWatches>) => void = () => {},
    ): Promise<void> {
      const interceptor = interceptWatches(connection);
      prepare(interceptor);
      const reports: string[] = [];
      const controller = new AbortController();
      const nameOf = ({ metadata }: Pod) => metadata.name!;
      const listener = {
        onReplaced: (objects: readonly Pod[]) =>
          void reports.push(`replaced: ${objects.map(nameOf).toSorted().join(" ")}`.trim()),
        onChanged(kind: string, pod: Pod) {
          const { deletionTimestamp, deletionGracePeriodSeconds } = pod.metadata;
          const ending = deletionTimestamp === undefined ? "" : ` ending in ${deletionGracePeriodSeconds} s`;
          reports.push(`${kind} ${nameOf(pod)}${ending}`);
        },
        onOutage: (error: KubeError) => void reports.push(`away: ${error.code}`),
        onRecovered: () => void reports.push("back"),
      };
      const end = kubeOn(interceptor.connection).listAndWatch(pods(namespace), selector, listener, controller.signal);
      const expectReports = async (...lines: readonly string[]) => {
        await pollUntil(`${lines} after ${reports}`, 20_000, () => reports.length >= lines.length);
        expect(reports.splice(0)).toEqual([...lines]);
      };
      try {
        await body({ reports, expectReports, interceptor });
      } finally {
        controller.abort();
        await end;
      }
    }

    test("reports the existing objects, then every change in order", async () => {
      const fieldSelector = "spec.nodeName=contract-follow";
      const first = await createPod({ name: "follow-first", nodeName: "contract-follow" });
      await withReflector({ fieldSelector }, async ({ expectReports }) => {
        await expectReports("replaced: follow-first");
        await createPod({ name: "follow-second", nodeName: "contract-follow" });
        await createPod({ name: "follow-stranger" });
        await patchStatus(first, { phase: "Running" });
        await expectReports("added follow-second", "modified follow-first");
        await deletePod(first, 10);
        await deletePod(first, 0);
        await expectReports(
          "modified follow-first ending in 10 s",
          "modified follow-first ending in 0 s",
          "deleted follow-first ending in 0 s",
        );
      });
    });

    test("watches one object by name, before it exists and after it is deleted", async () => {
      await createPod({ name: "follow-one-other" });
      await withReflector({ fieldSelector: "metadata.name=follow-one" }, async ({ expectReports }) => {
        await expectReports("replaced:");
        const one = await createPod({ name: "follow-one", nodeName: "" });
        await createPod({ name: "follow-one-more" });
        await expectReports("added follow-one");
        await deletePod(one, 0);
        await expectReports("modified follow-one ending in 0 s", "deleted follow-one ending in 0 s");
        await createPod({ name: "follow-one", nodeName: "" });
        await expectReports("added follow-one");
      });
    });

    test("reports an object as added when it starts to match the selector, and as deleted when it stops", async () => {
      const labels = { of: "selector" };
      const pod = await createPod({ name: "selected", nodeName: "", labels });
      const selector = { fieldSelector: "spec.nodeName=contract-selector", labelSelector: "of=selector" };
      await withReflector(selector, async ({ expectReports }) => {
        await expectReports("replaced:");
        await bindPod(pod, "contract-selector");
        await expectReports("added selected");
        await kube.patch(pods(namespace), "selected", {
          type: "merge",
          body: { metadata: { labels: { of: null } } },
        });
        await expectReports("deleted selected");
      });
    });

    for (const [how, prepare] of [
      ["with initial events", () => {}],
      [
        "with lists",
        (interceptor: ReturnType<typeof interceptWatches>) =>
          interceptor.changeQuery(({ resourceVersionMatch: _, ...query }) => query),
      ],
    ] as const)
      test(`${how} resumes a broken watch and misses nothing`, async () => {
        const nodeName = `contract-${fresh()}`;
        const pod = await createPod({ nodeName });
        const name = pod.metadata.name!;
        await withReflector(
          { fieldSelector: `spec.nodeName=${nodeName}` },
          async ({ expectReports, interceptor }) => {
            await expectReports(`replaced: ${name}`);
            await patchStatus(pod, { phase: "Running" });
            await expectReports(`modified ${name}`);
            interceptor.breakWatches();
            const late = await createPod({ nodeName });
            await deletePod(pod, 0);
            await expectReports(
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

    test("lists again when its resourceVersion was compacted", async () => {
      const nodeName = "contract-forgotten";
      const [kept, gone] = [await createPod({ nodeName }), await createPod({ nodeName })];
      await withReflector(
        { fieldSelector: `spec.nodeName=${nodeName}` },
        async ({ reports, expectReports, interceptor }) => {
          await expectReports(
            `replaced: ${[kept, gone]
              .map(({ metadata }) => metadata.name)
              .toSorted()
              .join(" ")}`,
          );
          interceptor.changeQuery((query) => {
            // Resume from an old version, as after a long outage.
            return query["resourceVersion"] === undefined
              ? query
              : { ...query, resourceVersion: kept.metadata.resourceVersion };
          });
          interceptor.breakWatches();
          await deletePod(gone, 0);
          await forget();
          const again = `replaced: ${kept.metadata.name}`;
          await pollUntil(`${again} after ${reports}`, 30_000, () => reports.includes(again));
          expect(reports.filter((line) => !/^(away|back|replaced)/.test(line))).toEqual([]);
        },
      );
    });
  });
}
