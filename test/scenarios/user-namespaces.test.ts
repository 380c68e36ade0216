import { expect, test } from "bun:test";
import { NamespaceMode } from "../../proto/cri/gen/api.ts";
import { describeFieldError } from "../../proto/kubernetes/validation/field-error.ts";
import { validatePod } from "../../proto/kubernetes/validation/pod.ts";
import { createStage, makePod, type Stage } from "./harness.ts";
import { scenario } from "./scenario.ts";

const own = { hostUsers: false } as const;
const volumes = [{ name: "v", emptyDir: {} }];
const mounting = [{ name: "a", image: "busybox:1", volumeMounts: [{ name: "v", mountPath: "/v" }] }];

/** `web: sandbox 65536+65536, a 65536+65536 on /v /etc/hosts …`, of all pods that are there, and what is recorded. */
function users(stage: Stage): readonly string[] {
  const { runtime, disk } = stage;
  const range = (mappings: readonly { readonly hostId: number; readonly length: number }[] = []) =>
    mappings.map(({ hostId, length }) => `${hostId}+${length}`).join();
  const sandboxes = [...runtime.sandboxes.values()].map(({ config }) => {
    const told = config.linux?.securityContext?.namespaceOptions?.usernsOptions;
    const ids = told?.mode === NamespaceMode.NODE ? "the node's" : `${range(told?.uids)} ${range(told?.gids)}`;
    return `${config.metadata?.name}: sandbox ${ids}`;
  });
  const containers = [...runtime.containers.values()].map(({ config, sandbox }) => {
    const told = config.linux?.securityContext?.namespaceOptions?.usernsOptions;
    const mounts = config.mounts.map((each) => `${each.containerPath} ${range(each.uidMappings)}`.trim());
    const ids = told?.mode === NamespaceMode.NODE ? "the node's" : `${range(told?.uids)} ${range(told?.gids)}`;
    return `${sandbox.config.metadata?.name}: ${config.metadata?.name} ${ids}, ${mounts.join(", ")}`;
  });
  const records = disk
    .paths()
    .filter((path) => path.endsWith("/userns"))
    .map((path) => disk.nodes.get(path))
    .map((file) => (file?.kind === "file" ? `recorded ${file.content}` : "no file"));
  return [...sandboxes, ...containers, ...records].map((line) => line.replaceAll("-node:", ":"));
}

scenario(
  "pods with users of their own get different ids, recorded before anything runs; another pod has the node's",
  {
    async run(stage) {
      await stage.offer(makePod("web", own), makePod("db", { ...own, containers: mounting, volumes }), makePod("host"));
      await stage.advance("1s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s report db Pending: a waiting ContainerCreating
      0s report host Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s host: prepare volumes
      0s db: prepare volumes
      0s host: run sandbox (attempt 0): the pod has none
      0s web: run sandbox (attempt 0): the pod has none
      0s db: run sandbox (attempt 0): the pod has none
      0s host: create container a (attempt 0): it has not run yet
      0s web: create container a (attempt 0): it has not run yet
      0s db: create container a (attempt 0): it has not run yet
      0s host: start container a (attempt 0)
      0s web: start container a (attempt 0)
      0s db: start container a (attempt 0)
      0s report host Running, ready: a running
      0s report web Running, ready: a running
      0s report db Running, ready: a running"
    `);
  },
);

test("what the runtime is told, and what is recorded, are one and the same ids", async () => {
  const stage = await createStage();
  await stage.start();
  await stage.offer(makePod("web", own), makePod("db", { ...own, containers: mounting, volumes }), makePod("host"));
  await stage.advance("1s");
  expect(users(stage)).toMatchInlineSnapshot(`
    [
      "host: sandbox the node's",
      "web: sandbox 65536+65536 65536+65536",
      "db: sandbox 131072+65536 131072+65536",
      "host: a the node's, /etc/hosts, /dev/termination-log",
      "web: a 65536+65536 65536+65536, /etc/hosts 65536+65536, /dev/termination-log 65536+65536",
      "db: a 131072+65536 131072+65536, /v 131072+65536, /etc/hosts 131072+65536, /dev/termination-log 131072+65536",
      "recorded {"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}",
      "recorded {"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}",
    ]
  `);
});

scenario(
  "the next agent starts containers with the ids that their pod has had before",
  {
    options: { userPlaces: 2 },
    async run(stage) {
      await stage.offer(makePod("web", own, ["w"]), makePod("db", own, ["d"]));
      await stage.advance("1s");
      await stage.stop();
      await stage.start();
      await stage.exit("w", 1);
      await stage.exit("d", 1);
      await stage.advance("1m");
      const ofSandbox = users(stage).filter((line) => line.includes(": sandbox "));
      // The runtime takes no container with other ids than its sandbox has.
      stage.tell([`${new Set(ofSandbox.map((line) => line.split(" ").at(-1))).size} ranges`]);
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: w waiting ContainerCreating
      0s report db Pending: d waiting ContainerCreating
      0s web: prepare volumes
      0s db: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s db: run sandbox (attempt 0): the pod has none
      0s web: create container w (attempt 0): it has not run yet
      0s db: create container d (attempt 0): it has not run yet
      0s web: start container w (attempt 0)
      0s db: start container d (attempt 0)
      0s report web Running, ready: w running
      0s report db Running, ready: d running
      1s following the container runtime
      1s report web Running: w terminated Error 1
      1s web: prepare volumes
      1s web: create container w (attempt 1): it exited with code 1
      1s report web Running: w waiting ContainerCreating (restarts: 1)
      1s web: start container w (attempt 1)
      1s report web Running, ready: w running (restarts: 1)
      1s report db Running: d terminated Error 1
      1s db: prepare volumes
      1s db: create container d (attempt 1): it exited with code 1
      1s report db Running: d waiting ContainerCreating (restarts: 1)
      1s db: start container d (attempt 1)
      1s report db Running, ready: d running (restarts: 1)
      61s 2 ranges"
    `);
  },
);

scenario(
  "a pod that has come to its end gives its ids back, while it is still there for its logs",
  {
    options: { userPlaces: 1 },
    before: (stage) => void stage.runtime.programs.set("once", { exitsAfterMs: 1_000, exitCode: 0 }),
    async run(stage) {
      const once = makePod("once", { ...own, restartPolicy: "Never" }, ["once"]);
      await stage.offer(once);
      await stage.advance("5s");
      await stage.offer(once, makePod("next", own));
      await stage.advance("5s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report once Pending: once waiting ContainerCreating
      0s once: prepare volumes
      0s once: run sandbox (attempt 0): the pod has none
      0s once: create container once (attempt 0): it has not run yet
      0s once: start container once (attempt 0)
      0s report once Running, ready: once running
      1s report once Succeeded, terminating: once terminated Completed 0
      1s once: stop sandbox: all its containers are done
      1s once: release the pod's user ids: all its containers are done
      1s report once Succeeded, terminated: once terminated Completed 0
      5s report next Pending: a waiting ContainerCreating
      5s next: prepare volumes
      5s next: run sandbox (attempt 0): the pod has none
      5s next: create container a (attempt 0): it has not run yet
      5s next: start container a (attempt 0)
      5s report next Running, ready: a running"
    `);
  },
);

scenario(
  "a pod that finds no ids left waits for those of one that goes",
  {
    options: { userPlaces: 1 },
    async run(stage) {
      await stage.offer(makePod("web", own));
      await stage.advance("1s");
      await stage.offer(makePod("web", own), makePod("next", own));
      await stage.advance("3s");
      await stage.offer(makePod("next", own));
      await stage.advance("2m");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      1s report next Pending: a waiting ContainerCreating
      1s next: prepare volumes
      1s next: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace
      2s next: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace
      4s next: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace
      4s report web Running, ready, terminating: a running
      4s web: stop container a within 30s: its manifest is gone
      4s report web Running, terminating: a terminated Error 143
      4s web: stop sandbox: its manifest is gone
      4s web: remove sandbox: its manifest is gone
      4s web: remove the pod's files: its manifest is gone
      4s report web Running, finished: a terminated Error 143
      8s next: run sandbox (attempt 0): the pod has none
      8s next: create container a (attempt 0): it has not run yet
      8s next: start container a (attempt 0)
      8s report next Running, ready: a running"
    `);
  },
);

for (const [title, abilities] of [
  ["says that it cannot", { userNamespaces: false, supplementalGroupsPolicy: true }],
  ["is too old to say", undefined],
] as const)
  test(`where the runtime ${title}, a pod with users of its own waits in the kubelet's words, until it can`, async () => {
    const stage = await createStage({ isInCluster: true });
    stage.runtime.abilities = abilities;
    await stage.apply("web", own);
    await stage.start();
    await stage.advance("5s");
    expect(await stage.shown()).toEqual(["web Pending: a waiting ContainerCreating"]);
    const told = (await stage.events("web")).map((line) => line.replace(/^\d+x /, ""));
    expect([...new Set(told)]).toEqual([
      "Warning FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
    ]);
    // Whoever brings a newer one starts it anew.
    stage.runtime.abilities = { userNamespaces: true, supplementalGroupsPolicy: true };
    stage.runtime.restart();
    await stage.advance("10s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  });

test("with the node's network, processes or IPC a pod has no users of its own: such a manifest is refused, with the field", () => {
  for (const [field, words] of [
    ["hostNetwork", "spec.hostNetwork: Forbidden: when `hostUsers` is false"],
    ["hostPID", "spec.HostPID: Forbidden: when `hostUsers` is false"],
    ["hostIPC", "spec.HostIPC: Forbidden: when `hostUsers` is false"],
  ] as const)
    expect(validatePod(makePod("web", { ...own, [field]: true })).map(describeFieldError)).toEqual([words]);
});

test("a pod that wants no groups of the image runs where the runtime can leave them out, and is told so", async () => {
  const stage = await createStage({ isInCluster: true });
  stage.runtime.groupsInImages.set(1000n, [50_000n]);
  const securityContext = { runAsUser: 1000, runAsGroup: 3000, supplementalGroups: [4000] };
  await stage.apply("strict", { securityContext: { ...securityContext, supplementalGroupsPolicy: "Strict" } });
  await stage.apply("merge", { securityContext });
  await stage.start();
  await stage.advance("5s");
  expect(stage.pods().map(({ pod, status }) => [pod.metadata.name, status.containerStatuses?.[0]?.user])).toEqual([
    ["merge", { linux: { uid: 1000, gid: 3000, supplementalGroups: [3000, 4000, 50_000] } }],
    ["strict", { linux: { uid: 1000, gid: 3000, supplementalGroups: [3000, 4000] } }],
  ]);
});

test("a static pod that wants no groups of the image is rejected in the kubelet's words where the runtime cannot leave them out", async () => {
  for (const abilities of [undefined, { userNamespaces: true, supplementalGroupsPolicy: false }]) {
    const stage = await createStage();
    stage.runtime.abilities = abilities;
    await stage.start();
    await stage.offer(makePod("web", { securityContext: { supplementalGroupsPolicy: "Strict" } }));
    await stage.advance("1s");
    expect(stage.pods().map(({ status: { phase, reason, message } }) => ({ phase, reason, message }))).toEqual([
      {
        phase: "Failed",
        reason: "SupplementalGroupsPolicyNotSupported",
        message: "Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node",
      },
    ]);
  }
});
