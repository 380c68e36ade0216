import { expect, test } from "bun:test";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario } from "./api-scenario.ts";
import type { ExpectedRegression } from "./harness/expected-regressions.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const image = "busybox:1";
const container = (name: string, more: Partial<Container> = {}): Container => ({ name, image, ...more });
/** A container that triggers RestartAllContainers when it exits with 88. */
const restartAllRule: Partial<Container> = {
  restartPolicy: "Never",
  restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
};
const letFirstSucceed = (harness: AgentHarness) =>
  void harness.runtime.programs.set("first", { exitsAfterMs: 1000, exitCode: 0 });
const relevantLines = /create container|start|stop|remove|report/;

scenario(
  "RestartAllContainers removes all containers, the one that triggered it last, and starts again in the same sandbox",
  {
    before: letFirstSucceed,
    async run(harness) {
      const initContainers = [container("first"), container("proxy", { restartPolicy: "Always" })];
      const containers = [container("a"), container("watcher", restartAllRule)];
      await harness.setManifests(makePod("web", { restartPolicy: "Never", initContainers, containers }));
      await harness.advance("5s");
      await harness.exit("watcher", 88);
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: init first waiting PodInitializing, init proxy waiting PodInitializing, a waiting PodInitializing, watcher waiting PodInitializing
      0s web: create container first (attempt 0): it has not run yet
      0s web: start container first (attempt 0)
      0s report web Pending: init first running, init proxy waiting PodInitializing, a waiting PodInitializing, watcher waiting PodInitializing
      1s report web Pending: init first terminated Completed 0, init proxy waiting PodInitializing, a waiting PodInitializing, watcher waiting PodInitializing
      1s web: create container proxy (attempt 0): it has not run yet
      1s web: start container proxy (attempt 0)
      1s report web Pending: init first terminated Completed 0, init proxy running, a waiting PodInitializing, watcher waiting PodInitializing
      1s web: create container a (attempt 0): it has not run yet
      1s web: start container a (attempt 0)
      1s report web Pending: init first terminated Completed 0, init proxy running, a running, watcher waiting PodInitializing
      1s web: create container watcher (attempt 0): it has not run yet
      1s web: start container watcher (attempt 0)
      1s report web Running, ready: init first terminated Completed 0, init proxy running, a running, watcher running
      5s report web Running: init first terminated Completed 0, init proxy running, a running, watcher terminated Error 88
      5s web: stop container proxy within 2s: container watcher asks for a restart of all
      5s report web Running: init first terminated Completed 0, init proxy terminated Error 143, a terminated Error 143, watcher terminated Error 88
      5s web: stop container a within 2s: container watcher asks for a restart of all
      5s web: remove container proxy: container watcher asks for a restart of all
      5s web: remove container a: container watcher asks for a restart of all
      5s web: remove container first: container watcher asks for a restart of all
      5s report web Running: init first waiting RestartingAllContainers (restarts: 1), init proxy waiting RestartingAllContainers (restarts: 1), a waiting RestartingAllContainers (restarts: 1), watcher terminated Error 88
      5s web: remove container watcher: container watcher asks for a restart of all
      5s report web Running: init first waiting RestartingAllContainers (restarts: 1), init proxy waiting RestartingAllContainers (restarts: 1), a waiting RestartingAllContainers (restarts: 1), watcher waiting RestartingAllContainers (restarts: 1)
      5s web: create container first (attempt 1): all containers are restarted
      5s report web Pending: init first waiting PodInitializing (restarts: 1), init proxy waiting PodInitializing (restarts: 1), a waiting PodInitializing (restarts: 1), watcher waiting PodInitializing (restarts: 1)
      5s web: start container first (attempt 1)
      5s report web Pending: init first running (restarts: 1), init proxy waiting PodInitializing (restarts: 1), a waiting PodInitializing (restarts: 1), watcher waiting PodInitializing (restarts: 1)
      6s report web Pending: init first terminated Completed 0 (restarts: 1), init proxy waiting PodInitializing (restarts: 1), a waiting PodInitializing (restarts: 1), watcher waiting PodInitializing (restarts: 1)
      6s web: create container proxy (attempt 1): all containers are restarted
      6s web: start container proxy (attempt 1)
      6s report web Running: init first terminated Completed 0 (restarts: 1), init proxy running (restarts: 1), a waiting PodInitializing (restarts: 1), watcher waiting PodInitializing (restarts: 1)
      6s web: create container a (attempt 1): all containers are restarted
      6s web: start container a (attempt 1)
      6s report web Running: init first terminated Completed 0 (restarts: 1), init proxy running (restarts: 1), a running (restarts: 1), watcher waiting PodInitializing (restarts: 1)
      6s web: create container watcher (attempt 1): all containers are restarted
      6s web: start container watcher (attempt 1)
      6s report web Running, ready: init first terminated Completed 0 (restarts: 1), init proxy running (restarts: 1), a running (restarts: 1), watcher running (restarts: 1)"
    `);
  },
);

scenario(
  "RestartAllContainers also restarts containers that had exited, regardless of their restart policy",
  {
    before: (harness) => void harness.runtime.programs.set("done", { exitsAfterMs: 1000, exitCode: 1 }),
    async run(harness) {
      const containers = [container("done"), container("a"), container("watcher", restartAllRule)];
      await harness.setManifests(makePod("web", { restartPolicy: "Never", containers }));
      await harness.advance("5s");
      await harness.exit("watcher", 88);
      await harness.advance("5s");
      await harness.exit("watcher", 88);
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating, done waiting ContainerCreating, watcher waiting ContainerCreating
      0s web: create container done (attempt 0): it has not run yet
      0s web: start container done (attempt 0)
      0s report web Pending: a waiting ContainerCreating, done running, watcher waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Pending: a running, done running, watcher waiting ContainerCreating
      0s web: create container watcher (attempt 0): it has not run yet
      0s web: start container watcher (attempt 0)
      0s report web Running, ready: a running, done running, watcher running
      1s report web Running: a running, done terminated Error 1, watcher running
      5s report web Running: a running, done terminated Error 1, watcher terminated Error 88
      5s web: stop container a within 2s: container watcher asks for a restart of all
      5s report web Running: a terminated Error 143, done terminated Error 1, watcher terminated Error 88
      5s web: remove container done: container watcher asks for a restart of all
      5s web: remove container a: container watcher asks for a restart of all
      5s report web Running: a waiting RestartingAllContainers (restarts: 1), done waiting RestartingAllContainers (restarts: 1), watcher terminated Error 88
      5s web: remove container watcher: container watcher asks for a restart of all
      5s report web Running: a waiting RestartingAllContainers (restarts: 1), done waiting RestartingAllContainers (restarts: 1), watcher waiting RestartingAllContainers (restarts: 1)
      5s web: create container done (attempt 1): all containers are restarted
      5s report web Running: a waiting ContainerCreating (restarts: 1), done waiting ContainerCreating (restarts: 1), watcher waiting ContainerCreating (restarts: 1)
      5s web: start container done (attempt 1)
      5s report web Running: a waiting ContainerCreating (restarts: 1), done running (restarts: 1), watcher waiting ContainerCreating (restarts: 1)
      5s web: create container a (attempt 1): all containers are restarted
      5s web: start container a (attempt 1)
      5s report web Running: a running (restarts: 1), done running (restarts: 1), watcher waiting ContainerCreating (restarts: 1)
      5s web: create container watcher (attempt 1): all containers are restarted
      5s web: start container watcher (attempt 1)
      5s report web Running, ready: a running (restarts: 1), done running (restarts: 1), watcher running (restarts: 1)
      6s report web Running: a running (restarts: 1), done terminated Error 1 (restarts: 1), watcher running (restarts: 1)
      10s report web Running: a running (restarts: 1), done terminated Error 1 (restarts: 1), watcher terminated Error 88 (restarts: 1)
      10s web: stop container a within 2s: container watcher asks for a restart of all
      10s report web Running: a terminated Error 143 (restarts: 1), done terminated Error 1 (restarts: 1), watcher terminated Error 88 (restarts: 1)
      10s web: remove container done: container watcher asks for a restart of all
      10s web: remove container a: container watcher asks for a restart of all
      10s report web Running: a waiting RestartingAllContainers (restarts: 2), done waiting RestartingAllContainers (restarts: 2), watcher terminated Error 88 (restarts: 1)
      10s web: remove container watcher: container watcher asks for a restart of all
      10s report web Running: a waiting RestartingAllContainers (restarts: 2), done waiting RestartingAllContainers (restarts: 2), watcher waiting RestartingAllContainers (restarts: 2)
      10s web: create container done (attempt 2): all containers are restarted
      10s report web Running: a waiting ContainerCreating (restarts: 2), done waiting ContainerCreating (restarts: 2), watcher waiting ContainerCreating (restarts: 2)
      10s web: start container done (attempt 2)
      10s report web Running: a waiting ContainerCreating (restarts: 2), done running (restarts: 2), watcher waiting ContainerCreating (restarts: 2)
      10s web: create container a (attempt 2): all containers are restarted
      10s web: start container a (attempt 2)
      10s report web Running: a running (restarts: 2), done running (restarts: 2), watcher waiting ContainerCreating (restarts: 2)
      10s web: create container watcher (attempt 2): all containers are restarted
      10s web: start container watcher (attempt 2)
      10s report web Running, ready: a running (restarts: 2), done running (restarts: 2), watcher running (restarts: 2)
      11s report web Running: a running (restarts: 2), done terminated Error 1 (restarts: 2), watcher running (restarts: 2)"
    `);
  },
);

scenario(
  "an init container can trigger RestartAllContainers; repeated triggers are limited to one a second",
  {
    endDependsOnLag: "the number of restarts within 2.5 seconds",
    before: (harness) => void harness.runtime.programs.set("first", { exitsAfterMs: 0, exitCode: 88 }),
    async run(harness) {
      const initContainers = [container("first", restartAllRule)];
      await harness.setManifests(makePod("web", { restartPolicy: "Never", initContainers }));
      await harness.advance("2500ms");
      harness.runtime.programs.set("first", { exitsAfterMs: 0, exitCode: 0 });
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: init first waiting PodInitializing, a waiting PodInitializing
      0s web: create container first (attempt 0): it has not run yet
      0s web: start container first (attempt 0)
      0s report web Pending: init first running, a waiting PodInitializing
      0s report web Pending: init first terminated Error 88, a waiting PodInitializing
      1s web: remove container first: container first asks for a restart of all
      1s report web Pending: init first waiting RestartingAllContainers (restarts: 1), a waiting PodInitializing
      1s web: create container first (attempt 1): all containers are restarted
      1s report web Pending: init first waiting PodInitializing (restarts: 1), a waiting PodInitializing
      1s web: start container first (attempt 1)
      1s report web Pending: init first running (restarts: 1), a waiting PodInitializing
      1s report web Pending: init first terminated Error 88 (restarts: 1), a waiting PodInitializing
      2s web: remove container first: container first asks for a restart of all
      2s report web Pending: init first waiting RestartingAllContainers (restarts: 2), a waiting PodInitializing
      2s web: create container first (attempt 2): all containers are restarted
      2s report web Pending: init first waiting PodInitializing (restarts: 2), a waiting PodInitializing
      2s web: start container first (attempt 2)
      2s report web Pending: init first running (restarts: 2), a waiting PodInitializing
      2s report web Pending: init first terminated Error 88 (restarts: 2), a waiting PodInitializing
      3s web: remove container first: container first asks for a restart of all
      3s report web Pending: init first waiting RestartingAllContainers (restarts: 3), a waiting PodInitializing
      3s web: create container first (attempt 3): all containers are restarted
      3s report web Pending: init first waiting PodInitializing (restarts: 3), a waiting PodInitializing
      3s web: start container first (attempt 3)
      3s report web Pending: init first running (restarts: 3), a waiting PodInitializing
      3s report web Pending: init first terminated Completed 0 (restarts: 3), a waiting PodInitializing
      3s web: create container a (attempt 0): it has not run yet
      3s web: start container a (attempt 0)
      3s report web Running, ready: init first terminated Completed 0 (restarts: 3), a running"
    `);
  },
);

scenario(
  "a container stopped by RestartAllContainers does not end a pod with restartPolicy Never",
  {
    before: letFirstSucceed,
    async run(harness) {
      const rules = { restartPolicyRules: restartAllRule.restartPolicyRules ?? [] };
      const initContainers = [container("first"), container("watcher", { restartPolicy: "Always", ...rules })];
      await harness.setManifests(makePod("web", { restartPolicy: "Never", initContainers }));
      await harness.advance("5s");
      await harness.exit("watcher", 88);
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /^\d+s (web: create container|report web (Failed|Running))/)).toMatchInlineSnapshot(`
      "0s web: create container first (attempt 0): it has not run yet
      1s web: create container watcher (attempt 0): it has not run yet
      1s web: create container a (attempt 0): it has not run yet
      1s report web Running, ready: init first terminated Completed 0, init watcher running, a running
      5s report web Running: init first terminated Completed 0, init watcher terminated Error 88, a running
      5s report web Running: init first terminated Completed 0, init watcher terminated Error 88, a terminated Error 143
      5s report web Running: init first waiting RestartingAllContainers (restarts: 1), init watcher waiting RestartingAllContainers (restarts: 1), a waiting RestartingAllContainers (restarts: 1)
      5s web: create container first (attempt 1): all containers are restarted
      6s web: create container watcher (attempt 1): all containers are restarted
      6s report web Running: init first terminated Completed 0 (restarts: 1), init watcher running (restarts: 1), a waiting PodInitializing (restarts: 1)
      6s web: create container a (attempt 1): all containers are restarted
      6s report web Running, ready: init first terminated Completed 0 (restarts: 1), init watcher running (restarts: 1), a running (restarts: 1)"
    `);
  },
);

/** The kubelet replaces the end of a removed container, too: it reports `RestartingAllContainers` with exit code 137. */
const replacedEnds = (...containers: readonly string[]): readonly ExpectedRegression[] =>
  containers.map((label) => ({
    pod: "web",
    label,
    rule: "end before the last start",
    why: "RestartAllContainers removes the container and reports an end of its own.",
  }));

apiScenario(
  "RestartAllContainers of an API pod causes the kubelet's events",
  async (harness) => {
    const containers = [
      container("a", { imagePullPolicy: "IfNotPresent" }),
      container("watcher", { ...restartAllRule, imagePullPolicy: "IfNotPresent" }),
    ];
    await harness.apply("web", { restartPolicy: "Never", containers });
    await harness.advance("5s");
    const attempts = [...harness.runtime.containers.values()].map(({ config }) => config.metadata?.attempt);
    if (!attempts.includes(1)) await harness.exit("watcher", 88);
    await harness.advance("10s");
  },
  async ({ api }, harness) => {
    expect(api).toEqual(["web Running, ready: a running (restarts: 1), watcher running (restarts: 1)"]);
    expect(await harness.events("web")).toMatchInlineSnapshot(`
      [
        "2x Normal Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod",
        "2x Normal Created: Container created",
        "2x Normal Started: Container started",
        "2x Normal Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod",
        "2x Normal Created: Container created",
        "2x Normal Started: Container started",
        "1x Normal Killing: killing",
      ]
    `);
  },
  { node: { regressions: replacedEnds("a", "watcher") } },
);

apiScenario(
  "after several RestartAllContainers each container has its current and its previous log",
  async (harness) => {
    const containers = [
      container("a", { imagePullPolicy: "IfNotPresent" }),
      container("watcher", { ...restartAllRule, imagePullPolicy: "IfNotPresent" }),
    ];
    await harness.apply("web", { restartPolicy: "Never", containers });
    for (let round = 0; round < 2; round++) {
      await harness.advance("5s");
      await harness.exit("watcher", 88);
    }
    await harness.advance("5s");
  },
  async ({ node, api }) => {
    expect(api).toEqual(["web Running, ready: a running (restarts: 2), watcher running (restarts: 2)"]);
    expect(node.filter((line) => /\/\d+\.log$/.test(line))).toEqual([
      "/logs/default_web_UID/a/1.log",
      "/logs/default_web_UID/a/2.log",
      "/logs/default_web_UID/watcher/1.log",
      "/logs/default_web_UID/watcher/2.log",
    ]);
  },
  { stride: 3, node: { regressions: replacedEnds("a", "watcher") } },
);

/**
 * The moment of the deletion during RestartAllContainers, the expected runtime calls for `a`, and the time of its exit.
 */
const deletions: readonly [
  moment: string,
  runsFor: string,
  remove: (harness: AgentHarness, remove: () => Promise<void>) => Promise<void>,
  asked: readonly string[],
  endsAtMs: number,
  regressions?: readonly ExpectedRegression[],
][] = [
  [
    "before any container is killed runs its hooks within its grace period",
    "300ms",
    async (harness, remove) => {
      await harness.exit("watcher", 88);
      await harness.advance("200ms");
      await remove();
    },
    ["execSync default/web/a #0: drain", "stopContainer default/web/a #0 within 10s"],
    10_500,
  ],
  [
    "while containers are killed runs its hooks within its grace period",
    "5s",
    async (harness, remove) => {
      await harness.exit("watcher", 88);
      // The grace period of the others is 2 s. With a late status the agent may stop them 1 s before this advance.
      await harness.advance("500ms");
      await remove();
    },
    [
      // The first stop is cancelled: it would have killed the container before the hook has finished.
      "stopContainer default/web/a #0 within 2s",
      "execSync default/web/a #0: drain",
      "stopContainer default/web/a #0 within 10s",
    ],
    15_500,
  ],
  [
    "while containers are removed has already stopped",
    "5s",
    async (harness, remove) => {
      harness.runtime.before.removeContainer = async () => {
        delete harness.runtime.before.removeContainer;
        await remove();
      };
      await harness.exit("watcher", 88);
    },
    ["stopContainer default/web/a #0 within 2s"],
    7000,
    replacedEnds("a"),
  ],
];
for (const [moment, runsFor, remove, expectedCalls, endsAtMs, regressions = []] of deletions)
  apiScenario(
    `a pod that is deleted during RestartAllContainers, ${moment} and starts no container again`,
    async (harness) => {
      harness.runtime.programs.set("a", { onTerm: "ignores" });
      const lifecycle = { preStop: { exec: { command: ["drain"] } } };
      const containers = [
        container("a", { imagePullPolicy: "IfNotPresent", lifecycle }),
        container("watcher", { ...restartAllRule, imagePullPolicy: "IfNotPresent" }),
      ];
      await harness.apply("web", { restartPolicy: "Never", terminationGracePeriodSeconds: 10, containers });
      await harness.advance(runsFor);
      let before = Number.NaN;
      await remove(harness, async () => {
        before = harness.runtime.timeline.length;
        await harness.deletePod("web", 10);
      });
      await harness.advance("40s");
      const since = harness.runtime.timeline.slice(before).map(({ kind, change }) => `${kind} ${change}`);
      expect(since.filter((line) => /created|started/.test(line))).toEqual([]);
      expect(since.filter((line) => line === "sandbox deleted")).toEqual(["sandbox deleted"]);
    },
    async (end, { runtime }) => {
      expect(end).toEqual({ node: [], api: [] });
      expect(runtime.calls.filter((call) => /^(execSync|stopContainer) .*\/a #/.test(call))).toEqual([
        ...expectedCalls,
      ]);
      const [{ at: start } = { at: 0 }] = runtime.timeline;
      const ends = runtime.timeline.filter(({ role, change }) => role.endsWith("/a") && change === "stopped");
      // The runtime shows each exit some milliseconds late.
      expect(ends.map(({ at }) => Math.round((at - start) / 100) * 100)).toEqual([endsAtMs]);
    },
    { node: { regressions } },
  );

test("a static pod that is removed during RestartAllContainers is stopped and removed", async () => {
  const harness = await createHarness();
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.start();
  await harness.setManifests(
    makePod("web", { restartPolicy: "Never", containers: [container("a"), container("watcher", restartAllRule)] }),
  );
  await harness.advance("5s");
  await harness.exit("watcher", 88);
  await harness.advance("1s");
  await harness.setManifests();
  await harness.advance("40s");
  expect(harness.nodeSnapshot()).toEqual([]);
});
