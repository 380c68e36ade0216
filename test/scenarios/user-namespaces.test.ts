import { expect, test } from "bun:test";
import { NamespaceMode } from "../../proto/cri/gen/api.ts";
import { describeFieldError } from "../../proto/kubernetes/validation/field-error.ts";
import { validatePod } from "../../proto/kubernetes/validation/pod.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { scenario } from "./scenario.ts";

const ownUsers = { hostUsers: false } as const;
const volumes = [{ name: "v", emptyDir: {} }];
const mounting = [{ name: "a", image: "busybox:1", volumeMounts: [{ name: "v", mountPath: "/v" }] }];

/**
 * The id ranges of all sandboxes, containers and records: `web: sandbox 65536+65536 …`, `web: a 65536+65536 …,
 * /etc/hosts …`.
 */
function idRanges(harness: AgentHarness): readonly string[] {
  const { runtime, disk } = harness;
  const range = (mappings: readonly { readonly hostId: number; readonly length: number }[] = []) =>
    mappings.map(({ hostId, length }) => `${hostId}+${length}`).join();
  const sandboxes = [...runtime.sandboxes.values()].map(({ config }) => {
    const userns = config.linux?.securityContext?.namespaceOptions?.usernsOptions;
    const ids = userns?.mode === NamespaceMode.NODE ? "the node's" : `${range(userns?.uids)} ${range(userns?.gids)}`;
    return `${config.metadata?.name}: sandbox ${ids}`;
  });
  const containers = [...runtime.containers.values()].map(({ config, sandbox }) => {
    const userns = config.linux?.securityContext?.namespaceOptions?.usernsOptions;
    const mounts = config.mounts.map((each) => `${each.containerPath} ${range(each.uidMappings)}`.trim());
    const ids = userns?.mode === NamespaceMode.NODE ? "the node's" : `${range(userns?.uids)} ${range(userns?.gids)}`;
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
  "pods with hostUsers false get separate id ranges, recorded before their sandboxes run",
  {
    async run(harness) {
      await harness.setManifests(
        makePod("web", ownUsers),
        makePod("db", { ...ownUsers, containers: mounting, volumes }),
        makePod("host"),
      );
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s report db Pending: a waiting ContainerCreating
      0s report host Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s db: create the pod's log directory
      0s host: create the pod's log directory
      0s host: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s db: create the pod's directories
      0s host: create the pod's directories
      0s web: allocate the pod's user ids
      0s db: allocate the pod's user ids
      0s host: create container a (attempt 0): it has not run yet
      0s web: run sandbox (attempt 0): the pod has none
      0s db: run sandbox (attempt 0): the pod has none
      0s host: start container a (attempt 0)
      0s db: set up volume v
      0s report host Running, ready: a running
      0s web: create container a (attempt 0): it has not run yet
      0s db: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s db: start container a (attempt 0)
      0s report web Running, ready: a running
      0s report db Running, ready: a running"
    `);
  },
);

test("sandboxes, containers, mounts and records of a pod have the same id range", async () => {
  const harness = await createHarness();
  await harness.start();
  await harness.setManifests(
    makePod("web", ownUsers),
    makePod("db", { ...ownUsers, containers: mounting, volumes }),
    makePod("host"),
  );
  await harness.advance("1s");
  expect(idRanges(harness)).toMatchInlineSnapshot(`
    [
      "host: sandbox the node's",
      "web: sandbox 65536+65536 65536+65536",
      "db: sandbox 131072+65536 131072+65536",
      "host: a the node's, /etc/hosts, /dev/termination-log",
      "web: a 65536+65536 65536+65536, /etc/hosts 65536+65536, /dev/termination-log 65536+65536",
      "db: a 131072+65536 131072+65536, /v 131072+65536, /etc/hosts 131072+65536, /dev/termination-log 131072+65536",
      "recorded {"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}",
      "recorded {"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}",
    ]
  `);
});

scenario(
  "the next agent starts containers with the pod's recorded id range",
  {
    options: { userNamespaceSlots: 2 },
    async run(harness) {
      await harness.setManifests(makePod("web", ownUsers, ["w"]), makePod("db", ownUsers, ["d"]));
      await harness.advance("1s");
      await harness.stop();
      await harness.start();
      await harness.exit("w", 1);
      await harness.exit("d", 1);
      await harness.advance("1m");
      const ofSandbox = idRanges(harness).filter((line) => line.includes(": sandbox "));
      // The runtime refuses a container whose ids differ from its sandbox's.
      harness.appendLog([`${new Set(ofSandbox.map((line) => line.split(" ").at(-1))).size} ranges`]);
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: w waiting ContainerCreating
      0s report db Pending: d waiting ContainerCreating
      0s web: create the pod's log directory
      0s db: create the pod's log directory
      0s web: create the pod's directories
      0s db: create the pod's directories
      0s web: allocate the pod's user ids
      0s db: allocate the pod's user ids
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
      1s web: create the pod's log directory
      1s web: create the pod's directories
      1s web: create container w (attempt 1): it exited with code 1
      1s report web Running: w waiting ContainerCreating (restarts: 1)
      1s web: start container w (attempt 1)
      1s report web Running, ready: w running (restarts: 1)
      1s report db Running: d terminated Error 1
      1s db: create the pod's log directory
      1s db: create the pod's directories
      1s db: create container d (attempt 1): it exited with code 1
      1s report db Running: d waiting ContainerCreating (restarts: 1)
      1s db: start container d (attempt 1)
      1s report db Running, ready: d running (restarts: 1)
      61s 2 ranges"
    `);
  },
);

scenario(
  "a finished pod releases its id range while its logs are kept",
  {
    options: { userNamespaceSlots: 1 },
    before: (harness) => void harness.runtime.programs.set("once", { exitsAfterMs: 1_000, exitCode: 0 }),
    async run(harness) {
      const once = makePod("once", { ...ownUsers, restartPolicy: "Never" }, ["once"]);
      await harness.setManifests(once);
      await harness.advance("5s");
      await harness.setManifests(once, makePod("next", ownUsers));
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report once Pending: once waiting ContainerCreating
      0s once: create the pod's log directory
      0s once: create the pod's directories
      0s once: allocate the pod's user ids
      0s once: run sandbox (attempt 0): the pod has none
      0s once: create container once (attempt 0): it has not run yet
      0s once: start container once (attempt 0)
      0s report once Running, ready: once running
      1s report once Succeeded, terminating: once terminated Completed 0
      1s once: stop sandbox: all its containers are done
      1s once: release the pod's user ids: all its containers are done
      1s report once Succeeded, terminated: once terminated Completed 0
      5s report next Pending: a waiting ContainerCreating
      5s next: create the pod's log directory
      5s next: create the pod's directories
      5s next: allocate the pod's user ids
      5s next: run sandbox (attempt 0): the pod has none
      5s next: create container a (attempt 0): it has not run yet
      5s next: start container a (attempt 0)
      5s report next Running, ready: a running"
    `);
  },
);

scenario(
  "a pod without a free id range waits until another pod releases one",
  {
    options: { userNamespaceSlots: 1 },
    async run(harness) {
      await harness.setManifests(makePod("web", ownUsers));
      await harness.advance("1s");
      await harness.setManifests(makePod("web", ownUsers), makePod("next", ownUsers));
      await harness.advance("3s");
      await harness.setManifests(makePod("next", ownUsers));
      await harness.advance("2m");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: create the pod's directories
      0s web: allocate the pod's user ids
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      1s report next Pending: a waiting ContainerCreating
      1s next: create the pod's log directory
      1s next: create the pod's directories
      1s next: failed to allocate the pod's user ids: Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace
      2s next: failed to allocate the pod's user ids: Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace
      4s next: failed to allocate the pod's user ids: Failed to create pod sandbox: create user namespace: could not find an empty slot to allocate a user namespace
      4s report web Running, ready, terminating: a running
      4s web: stop container a within 30s: its manifest is gone
      4s report web Running, terminating: a terminated Error 143
      4s web: stop sandbox: its manifest is gone
      4s web: remove sandbox: its manifest is gone
      4s web: remove the pod's logs: its manifest is gone
      4s web: release the pod's user ids: its manifest is gone
      4s web: remove the pod's files: its manifest is gone
      4s report web Running, finished: a terminated Error 143
      8s next: allocate the pod's user ids
      8s next: run sandbox (attempt 0): the pod has none
      8s next: create container a (attempt 0): it has not run yet
      8s next: start container a (attempt 0)
      8s report next Running, ready: a running"
    `);
  },
);

for (const [title, features] of [
  ["does not support user namespaces", { userNamespaces: false, supplementalGroupsPolicy: true }],
  ["is too old to report its features", undefined],
] as const)
  test(`a pod with hostUsers false waits while the runtime ${title}, with the kubelet's event`, async () => {
    const harness = await createHarness({ isInCluster: true });
    harness.runtime.features = features;
    await harness.apply("web", ownUsers);
    await harness.start();
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
    const eventLines = (await harness.events("web")).map((line) => line.replace(/^\d+x /, ""));
    expect([...new Set(eventLines)]).toEqual([
      "Warning FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
    ]);
    // An upgrade restarts the runtime.
    harness.runtime.features = { userNamespaces: true, supplementalGroupsPolicy: true };
    harness.runtime.restart();
    await harness.advance("10s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

test("validation refuses hostUsers false together with hostNetwork, hostPID or hostIPC", () => {
  for (const [field, message] of [
    ["hostNetwork", "spec.hostNetwork: Forbidden: when `hostUsers` is false"],
    ["hostPID", "spec.HostPID: Forbidden: when `hostUsers` is false"],
    ["hostIPC", "spec.HostIPC: Forbidden: when `hostUsers` is false"],
  ] as const)
    expect(validatePod(makePod("web", { ...ownUsers, [field]: true })).map(describeFieldError)).toEqual([message]);
});

test("with supplementalGroupsPolicy Strict the image's groups are left out, and the status shows the groups", async () => {
  const harness = await createHarness({ isInCluster: true });
  harness.runtime.imageGroups.set(1000n, [50_000n]);
  const securityContext = { runAsUser: 1000, runAsGroup: 3000, supplementalGroups: [4000] };
  await harness.apply("strict", { securityContext: { ...securityContext, supplementalGroupsPolicy: "Strict" } });
  await harness.apply("merge", { securityContext });
  await harness.start();
  await harness.advance("5s");
  expect(
    harness.podReports().map(({ pod, status }) => [pod.metadata.name, status.containerStatuses?.[0]?.user]),
  ).toEqual([
    ["merge", { linux: { uid: 1000, gid: 3000, supplementalGroups: [3000, 4000, 50_000] } }],
    ["strict", { linux: { uid: 1000, gid: 3000, supplementalGroups: [3000, 4000] } }],
  ]);
});

test("a static pod with supplementalGroupsPolicy Strict is rejected if the runtime does not support it", async () => {
  for (const features of [undefined, { userNamespaces: true, supplementalGroupsPolicy: false }]) {
    const harness = await createHarness();
    harness.runtime.features = features;
    await harness.start();
    await harness.setManifests(makePod("web", { securityContext: { supplementalGroupsPolicy: "Strict" } }));
    await harness.advance("1s");
    expect(harness.podReports().map(({ status: { phase, reason, message } }) => ({ phase, reason, message }))).toEqual([
      {
        phase: "Failed",
        reason: "SupplementalGroupsPolicyNotSupported",
        message: "Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node",
      },
    ]);
  }
});
