/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
 *
 * Not tested:
 *   Restart All Containers   the feature gate: agent/decide/admission/admission.test.ts. Use cases: its users
 */
import { expect, test } from "bun:test";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { HarnessOptions } from "../scenarios/harness/harness-options.ts";
import {
  allRestarted,
  apiPod,
  conditionOf,
  container,
  containerOf,
  describeSection,
  type PodRun,
  runPod,
  runTimedPod,
  sidecar,
  statusOf,
} from "./pod-case.ts";

const rules: Partial<Container> = {
  restartPolicy: "Never",
  restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
};
const watcher = (more: Partial<Container> = {}) => container("watcher", { ...rules, ...more });
const spec: Partial<PodSpec> = {
  restartPolicy: "Never",
  initContainers: [container("setup"), sidecar("proxy")],
  containers: [container("a"), container("b"), watcher()],
};
const programs = { setup: { exitsAfterMs: 1000 }, b: { exitsAfterMs: 1000, exitCode: 3 } };

const options: HarnessOptions = { regressions: allRestarted("setup", "proxy", "a", "b", "watcher") };

/** Lets the watcher of the page's pod exit after ten seconds. */
async function restart<Run extends PodRun>(podRun: Run, exitCode = 88): Promise<Run> {
  await podRun.harness.advance("10s");
  await podRun.harness.exit("watcher", exitCode);
  await podRun.harness.showExits();
  return podRun;
}

const runAndRestart = async () => await restart(await runPod({ spec, programs, options }));

describeSection("Restart All Containers", () => {
  test("an exit that matches the rule restarts all containers of the pod in place", async () => {
    const { harness, expectTimeline } = await restart(await runTimedPod({ spec, programs, options }));
    await harness.advance("10s");
    await expectTimeline(
      / (setup|proxy|a|b|watcher) started/,
      ["10s setup started", "11s proxy started", "11s a started", "11s b started", "11s watcher started"],
      { from: 5 },
    );
  });

  test("an exit that does not match the rule follows the container's policy", async () => {
    const { harness } = await restart(await runPod({ spec, programs }), 1);
    await harness.advance("10s");
    expect((await containerOf(harness, "watcher")).state?.terminated?.exitCode).toBe(1);
    expect((await containerOf(harness, "a")).restartCount).toBe(0);
  });

  test("an init container and a sidecar can trigger the restart", async () => {
    const asking = { ...rules, restartPolicyRules: rules.restartPolicyRules ?? [] };
    const initContainers = [
      container("setup", asking),
      sidecar("proxy", { restartPolicyRules: asking.restartPolicyRules }),
    ];
    const { harness } = await runPod({
      options,
      spec: { ...spec, initContainers },
      programs: { setup: { exitsAfterMs: 2000, exitCode: 88 } },
    });
    await harness.advance("3s");
    harness.runtime.programs.set("setup", { exitsAfterMs: 1000 });
    await harness.advance("10s");
    await harness.exit("proxy", 88);
    await harness.advance("10s");
    const counts = ["setup", "proxy", "a"].map(async (name) => (await containerOf(harness, name)).restartCount);
    expect(await Promise.all(counts)).toEqual([3, 1, 1]);
  });
});

describeSection("How in-place Pod restarts work", () => {
  test("all running containers are killed without the grace period and without preStop hooks", async () => {
    const lifecycle = { preStop: { exec: { command: ["drain"] } } };
    const containers = [container("a", { lifecycle }), watcher()];
    const { harness, expectTimeline } = await runTimedPod({
      spec: { ...spec, terminationGracePeriodSeconds: 600, containers },
      programs: { ...programs, a: { onTerm: "ignores" } },
      options: { regressions: allRestarted("setup", "proxy", "a", "watcher") },
    });
    await harness.advance("10s");
    await harness.exit("watcher", 88);
    await harness.advance("10s");
    expect(harness.runtime.calls.filter((call) => call.endsWith(": drain"))).toEqual([]);
    await expectTimeline(/ a (started|stopped)/, ["1s a started", "12s a stopped", "13s a started"]);
  });

  test("the pod keeps its uid, address and sandbox", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec, programs, options });
    await harness.advance("10s");
    const before = await apiPod(harness);
    await harness.exit("watcher", 88);
    await harness.advance("10s");
    const after = await apiPod(harness);
    expect(after?.metadata.uid).toBe(before?.metadata.uid ?? "");
    expect(after?.status?.podIP).toBe(before?.status?.podIP ?? "");
    await expectTimeline(/sandbox (started|stopped)/, ["0s sandbox started"]);
  });

  test("the pod keeps its volumes", async () => {
    const [first, ...others] = spec.containers ?? [];
    const mounting = { ...first!, volumeMounts: [{ name: "data", mountPath: "/data" }] };
    const withVolume = { ...spec, containers: [mounting, ...others], volumes: [{ name: "data", emptyDir: {} }] };
    const { harness } = await runPod({ spec: withVolume, programs, options });
    await harness.advance("10s");
    const folder = harness.disk.paths().find((path) => path.endsWith("empty-dir/data"));
    await harness.disk.at("/").write(`${folder}/kept`, "x", 0o600);
    await harness.exit("watcher", 88);
    await harness.advance("10s");
    expect(harness.disk.paths()).toContain(`${folder}/kept`);
  });

  test("AllContainersRestarting is True while containers are being killed", async () => {
    const { statuses } = await runAndRestart();
    const conditions = statuses.map(({ conditions = [] }) =>
      conditions.find(({ type }) => type === "AllContainersRestarting"),
    );
    expect(conditions.map((each) => each?.status).filter((each, i, all) => each !== all[i - 1])).toEqual([
      "False",
      "True",
      "False",
    ]);
    const restarting = conditions.find((each) => each?.status === "True");
    expect(restarting?.reason).toBe("RestartAllContainersStarted");
    expect(restarting?.message).toBe("container exited with restart policy rule");
  });

  test("AllContainersRestarting is False after all containers were removed", async () => {
    const { harness } = await runAndRestart();
    await harness.advance("10s");
    expect(await conditionOf(harness, "AllContainersRestarting")).toMatchObject({ status: "False" });
  });

  test("init containers run again in order, then sidecars and all others start", async () => {
    const initContainers = [container("setup"), container("more"), sidecar("proxy")];
    const times = { ...programs, more: { exitsAfterMs: 2000 } };
    const { harness, expectTimeline } = await runTimedPod({
      spec: { ...spec, initContainers },
      programs: times,
      options: { regressions: allRestarted("setup", "more", "proxy", "a", "b", "watcher") },
    });
    await harness.advance("10s");
    await harness.exit("watcher", 88);
    await harness.advance("10s");
    await expectTimeline(
      / (setup|more|proxy|a) started/,
      ["10s setup started", "11s more started", "13s proxy started", "13s a started"],
      { from: 4 },
    );
  });

  test("containers that had already exited are restarted too, whatever their policy and exit code", async () => {
    const { harness, expectTimeline } = await restart(await runTimedPod({ spec, programs, options }));
    await harness.advance("500ms");
    await expectTimeline(/ setup (created|deleted)/, ["0s setup created", "10s setup deleted", "10s setup created"]);
    await harness.advance("10s");
    expect((await containerOf(harness, "b")).restartCount).toBe(1);
    expect((await statusOf(harness)).phase).toBe("Running");
  });

  test("a removed container is reported with the reason RestartingAllContainers and counted as a restart", async () => {
    const { harness, statuses } = await runAndRestart();
    await harness.advance("10s");
    const reasons = statuses.flatMap(({ containerStatuses = [] }) =>
      containerStatuses.map(({ state }) => state?.waiting?.reason),
    );
    expect(reasons).toContain("RestartingAllContainers");
    expect(await containerOf(harness, "a")).toMatchObject({
      restartCount: 1,
      lastState: { terminated: { exitCode: 137, reason: "RestartingAllContainers" } },
    });
  });
});
