import { describe, expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Pod, PodCondition } from "../../proto/kubernetes/gen/types.ts";
import { errorCodeOf, type KubeFixture, namespace } from "./kube-fixture.ts";

/** The contract of pods: their status, their generation, and their deletion. */
export function podsContract(fixture: KubeFixture): void {
  const { kube, aPod, createPod, patchStatus, deletePod, readPod, bindPod } = fixture;

  describe("a pod", () => {
    test("is created Pending with generation 1 and defaults; a given status is ignored", async () => {
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

    test("changes its status only through the subresource, and its spec only without", async () => {
      const pod = await createPod();
      const patch = (subresource: "status" | undefined, image: string, phase: string) =>
        kube.patch(pods(namespace), pod.metadata.name!, {
          type: "strategic",
          ...(subresource && { subresource }),
          body: { metadata: { labels: { image } }, spec: { containers: [{ name: "c", image }] }, status: { phase } },
        });
      const summary = ({ metadata, spec, status }: Pod) => [
        metadata.labels?.["image"],
        spec.containers[0]?.image,
        status?.phase,
        metadata.generation,
      ];
      expect(summary(await patch("status", "two", "Running"))).toEqual(["two", "berth.test/busybox:1", "Running", 1]);
      expect(summary(await patch(undefined, "three", "Failed"))).toEqual(["three", "three", "Running", 2]);
    });

    test("accepts a PUT of its status", async () => {
      const pod = await createPod();
      const running = { ...pod, status: { phase: "Running" } } as Pod;
      const replaced = await kube.replace(pods(namespace), running, { subresource: "status" });
      expect(replaced.status?.phase).toBe("Running");
    });

    test("merges the containers of a patch by name", async () => {
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

    test("has maps that are merged by key, where null removes a key", async () => {
      const pod = await createPod();
      const both = { cpu: "1", memory: "1Gi" };
      const whole = { allocatedResources: both, resources: { requests: both, limits: both } };
      expect((await patchStatus(pod, whole)).status).toMatchObject(whole);
      const resources = { requests: { cpu: "2", memory: null }, limits: null };
      const { status } = await patchStatus(pod, { allocatedResources: { cpu: "2", memory: null }, resources });
      expect(status?.allocatedResources).toEqual({ cpu: "2" });
      expect(status?.resources).toEqual({ requests: { cpu: "2" } });
    });

    test("drops a map that is sent with a $patch directive if it had no such map", async () => {
      const pod = await createPod();
      const { status } = await patchStatus(pod, { allocatedResources: { cpu: "1", $patch: "replace" } });
      expect(status?.allocatedResources).toBeUndefined();
    });

    const conditions: readonly (readonly [string, object, readonly string[]])[] = [
      [
        "is merged by type",
        { conditions: [{ type: "Initialized", status: "False" }] },
        ["Ready True", "Initialized False"],
      ],
      [
        "that is new keeps its position in the patch",
        {
          conditions: [
            { type: "New", status: "True" },
            { type: "Initialized", status: "True" },
          ],
        },
        ["New True", "Ready True", "Initialized True"],
      ],
      [
        "that is new and alone in the patch comes first",
        { conditions: [{ type: "New", status: "True" }] },
        ["New True", "Ready True", "Initialized True"],
      ],
      ["is removed by a $patch directive", { conditions: [{ type: "Ready", $patch: "delete" }] }, ["Initialized True"]],
      [
        "replaces all others with a $patch directive",
        { conditions: [{ type: "New", status: "True" }, { $patch: "replace" }] },
        ["New True"],
      ],
      [
        "is moved by $setElementOrder",
        { "$setElementOrder/conditions": [{ type: "Initialized" }, { type: "Ready" }] },
        ["Initialized True", "Ready True"],
      ],
      [
        "is added at the position of $setElementOrder",
        {
          "$setElementOrder/conditions": [{ type: "Ready" }, { type: "New" }, { type: "Initialized" }],
          conditions: [{ type: "New", status: "False" }],
        },
        ["Ready True", "New False", "Initialized True"],
      ],
      ["is removed with all others by null", { conditions: null }, []],
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
        const actual = (changed.status?.conditions ?? []).map((each: PodCondition) => `${each.type} ${each.status}`);
        expect(actual).toEqual([...expected]);
      });

    test("can be bound once, which does not change the generation", async () => {
      const pod = await createPod({ nodeName: "" });
      await bindPod(pod, "contract-a");
      const bound = await readPod(pod);
      expect(bound.spec.nodeName).toBe("contract-a");
      expect(bound.status?.conditions).toMatchObject([{ type: "PodScheduled", status: "True" }]);
      expect(bound.metadata.generation).toBe(1);
      expect(await errorCodeOf(bindPod(pod, "contract-b"))).toBe("CONFLICT");
    });
  });

  describe("the deletion of a pod", () => {
    const graceOf = async (pod: Pod) => {
      const { deletionTimestamp, deletionGracePeriodSeconds, generation } = (await readPod(pod)).metadata;
      return [deletionTimestamp !== undefined, deletionGracePeriodSeconds, generation];
    };

    test("uses the pod's own grace period by default", async () => {
      const pod = await createPod();
      await deletePod(pod);
      expect(await graceOf(pod)).toEqual([true, 30, 2]);
    });

    test("can be shortened by a second deletion, not extended", async () => {
      const pod = await createPod();
      for (const [requested, grace] of [
        [20, 20],
        [25, 20],
        [undefined, 20],
        [5, 5],
      ] as const) {
        await deletePod(pod, requested);
        expect(await graceOf(pod)).toEqual([true, grace, 2]);
      }
      await deletePod(pod, 0);
      expect(await errorCodeOf(readPod(pod))).toBe("NOT_FOUND");
    });

    test("removes a pod without a node at once", async () => {
      const pod = await createPod({ nodeName: "" });
      await deletePod(pod);
      expect(await errorCodeOf(readPod(pod))).toBe("NOT_FOUND");
    });

    for (const phase of ["Succeeded", "Failed"])
      test(`removes a pod whose phase is ${phase} at once`, async () => {
        const pod = await createPod();
        await patchStatus(pod, { phase });
        await deletePod(pod);
        expect(await errorCodeOf(readPod(pod))).toBe("NOT_FOUND");
      });

    test("waits for finalizers after the grace period", async () => {
      const pod = await createPod({ finalizers: ["berth.test/hold"] });
      await deletePod(pod, 0);
      expect(await graceOf(pod)).toEqual([true, 0, 2]);
      await kube.patch(pods(namespace), pod.metadata.name!, {
        type: "merge",
        body: { metadata: { finalizers: null } },
      });
      expect(await errorCodeOf(readPod(pod))).toBe("NOT_FOUND");
    });

    test("does not end when the finalizers are removed during the grace period", async () => {
      const pod = await createPod({ finalizers: ["berth.test/hold"] });
      await deletePod(pod, 10);
      const $deletion = { "$deleteFromPrimitiveList/finalizers": ["berth.test/hold"] };
      await kube.patch(pods(namespace), pod.metadata.name!, { type: "strategic", body: { metadata: $deletion } });
      expect(await graceOf(pod)).toEqual([true, 10, 2]);
      await deletePod(pod, 0);
      expect(await errorCodeOf(readPod(pod))).toBe("NOT_FOUND");
    });

    test("leaves the status writable", async () => {
      const pod = await createPod();
      await deletePod(pod);
      const { status, metadata } = await patchStatus(pod, { phase: "Failed" });
      expect(status?.phase).toBe("Failed");
      expect(metadata.deletionTimestamp).toBeDefined();
    });
  });
}
