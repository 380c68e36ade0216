import { describe, expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Pod, PodCondition } from "../../proto/kubernetes/gen/types.ts";
import { codeOf, type KubeScene, namespace } from "./kube-fixture.ts";

/** What is special about pods: their status, their generation, and their end. */
export function podsContract(scene: KubeScene): void {
  const { kube, aPod, createPod, patchStatus, remove, read, bind } = scene;

  describe("a pod", () => {
    test("begins as Pending, whatever its maker says, and in its first generation", async () => {
      const pod = await kube.create(pods(namespace), {
        ...aPod(),
        status: { phase: "Running", podIP: "10.0.0.1" },
      });
      expect(pod.status).toEqual({ phase: "Pending", qosClass: "BestEffort" });
      expect(pod.metadata.generation).toBe(1);
      expect(pod.spec).toMatchObject({
        restartPolicy: "Always",
        terminationGracePeriodSeconds: 30,
        dnsPolicy: "ClusterFirst",
      });
      expect(pod.spec.containers[0]).toMatchObject({
        imagePullPolicy: "IfNotPresent",
        terminationMessagePolicy: "File",
      });
    });

    test("has a status that is written by itself", async () => {
      const pod = await createPod();
      const patch = (subresource: "status" | undefined, image: string, phase: string) =>
        kube.patch(pods(namespace), pod.metadata.name!, {
          type: "strategic",
          ...(subresource && { subresource }),
          body: { metadata: { labels: { image } }, spec: { containers: [{ name: "c", image }] }, status: { phase } },
        });
      const seen = ({ metadata, spec, status }: Pod) => [
        metadata.labels?.["image"],
        spec.containers[0]?.image,
        status?.phase,
        metadata.generation,
      ];
      expect(seen(await patch("status", "two", "Running"))).toEqual(["two", "berth.test/busybox:1", "Running", 1]);
      expect(seen(await patch(undefined, "three", "Failed"))).toEqual(["three", "three", "Running", 2]);
    });

    test("is replaced in its status alone, too", async () => {
      const pod = await createPod();
      const running = { ...pod, status: { phase: "Running" } } as Pod;
      const replaced = await kube.replace(pods(namespace), running, { subresource: "status" });
      expect(replaced.status?.phase).toBe("Running");
    });

    test("has its containers patched by name", async () => {
      const pod = await kube.create(pods(namespace), {
        ...aPod(),
        spec: {
          ...aPod().spec,
          containers: [
            { name: "a", image: "a:1" },
            { name: "b", image: "b:1" },
          ],
        },
      } as Pod);
      const { spec } = await kube.patch(pods(namespace), pod.metadata.name!, {
        type: "strategic",
        body: { spec: { containers: [{ name: "b", image: "b:2" }] } },
      });
      expect(spec.containers.map(({ name, image }) => `${name} ${image}`)).toEqual(["a a:1", "b b:2"]);
    });

    const conditions: readonly (readonly [string, object, readonly string[]])[] = [
      [
        "is changed by its type",
        { conditions: [{ type: "Initialized", status: "False" }] },
        ["Ready True", "Initialized False"],
      ],
      [
        "that is new stands where the patch has it",
        {
          conditions: [
            { type: "New", status: "True" },
            { type: "Initialized", status: "True" },
          ],
        },
        ["New True", "Ready True", "Initialized True"],
      ],
      [
        "that is new alone comes first",
        { conditions: [{ type: "New", status: "True" }] },
        ["New True", "Ready True", "Initialized True"],
      ],
      ["is removed by a directive", { conditions: [{ type: "Ready", $patch: "delete" }] }, ["Initialized True"]],
      [
        "takes the place of all by a directive",
        { conditions: [{ type: "New", status: "True" }, { $patch: "replace" }] },
        ["New True"],
      ],
      [
        "is put in order by a directive",
        { "$setElementOrder/conditions": [{ type: "Initialized" }, { type: "Ready" }] },
        ["Initialized True", "Ready True"],
      ],
      [
        "is added in an order by a directive",
        {
          "$setElementOrder/conditions": [{ type: "Ready" }, { type: "New" }, { type: "Initialized" }],
          conditions: [{ type: "New", status: "False" }],
        },
        ["Ready True", "New False", "Initialized True"],
      ],
      ["is gone with all by null", { conditions: null }, []],
    ];
    for (const [what, status, expected] of conditions)
      test(`has conditions, one of which ${what}`, async () => {
        const pod = await createPod();
        await patchStatus(pod, {
          conditions: [
            { type: "Ready", status: "True" },
            { type: "Initialized", status: "True" },
          ],
        });
        const changed = await patchStatus(pod, status);
        const told = (changed.status?.conditions ?? []).map((each: PodCondition) => `${each.type} ${each.status}`);
        expect(told).toEqual([...expected]);
      });

    test("is bound once; that is no new generation", async () => {
      const pod = await createPod({ nodeName: "" });
      await bind(pod, "contract-a");
      const bound = await read(pod);
      expect(bound.spec.nodeName).toBe("contract-a");
      expect(bound.status?.conditions).toMatchObject([{ type: "PodScheduled", status: "True" }]);
      expect(bound.metadata.generation).toBe(1);
      expect(await codeOf(bind(pod, "contract-b"))).toBe("CONFLICT");
    });
  });

  describe("the deletion of a pod", () => {
    const graceOf = async (pod: Pod) => {
      const { deletionTimestamp, deletionGracePeriodSeconds, generation } = (await read(pod)).metadata;
      return [deletionTimestamp !== undefined, deletionGracePeriodSeconds, generation];
    };

    test("begins with its own grace", async () => {
      const pod = await createPod();
      await remove(pod);
      expect(await graceOf(pod)).toEqual([true, 30, 2]);
    });

    test("can be brought nearer, not put off", async () => {
      const pod = await createPod();
      for (const [requested, grace] of [
        [20, 20],
        [25, 20],
        [undefined, 20],
        [5, 5],
      ] as const) {
        await remove(pod, requested);
        expect(await graceOf(pod)).toEqual([true, grace, 2]);
      }
      await remove(pod, 0);
      expect(await codeOf(read(pod))).toBe("NOT_FOUND");
    });

    test("is at once for what runs nowhere", async () => {
      const pod = await createPod({ nodeName: "" });
      await remove(pod);
      expect(await codeOf(read(pod))).toBe("NOT_FOUND");
    });

    for (const phase of ["Succeeded", "Failed"])
      test(`is at once for what has ${phase}`, async () => {
        const pod = await createPod();
        await patchStatus(pod, { phase });
        await remove(pod);
        expect(await codeOf(read(pod))).toBe("NOT_FOUND");
      });

    test("waits for finalizers after its grace", async () => {
      const pod = await createPod({ finalizers: ["berth.test/hold"] });
      await remove(pod, 0);
      expect(await graceOf(pod)).toEqual([true, 0, 2]);
      await kube.patch(pods(namespace), pod.metadata.name!, {
        type: "merge",
        body: { metadata: { finalizers: null } },
      });
      expect(await codeOf(read(pod))).toBe("NOT_FOUND");
    });

    test("does not end when the finalizers go before its grace is over", async () => {
      const pod = await createPod({ finalizers: ["berth.test/hold"] });
      await remove(pod, 10);
      const $deletion = { "$deleteFromPrimitiveList/finalizers": ["berth.test/hold"] };
      await kube.patch(pods(namespace), pod.metadata.name!, { type: "strategic", body: { metadata: $deletion } });
      expect(await graceOf(pod)).toEqual([true, 10, 2]);
      await remove(pod, 0);
      expect(await codeOf(read(pod))).toBe("NOT_FOUND");
    });

    test("leaves its status to be written", async () => {
      const pod = await createPod();
      await remove(pod);
      const { status, metadata } = await patchStatus(pod, { phase: "Failed" });
      expect(status?.phase).toBe("Failed");
      expect(metadata.deletionTimestamp).toBeDefined();
    });
  });
}
