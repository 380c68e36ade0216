/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
 *
 * What it says of others:
 *   Restart All Containers   the feature gate, on by default, which this agent does not heed. For what it is useful: whoever uses it
 */
import { describe, expect, test } from "bun:test";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import {
  conditionOf,
  container,
  containerOf,
  happenings,
  type Page,
  runPod,
  shownPod,
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

/** The pod of that page, whose watcher exits after ten seconds. */
async function restarted(exitCode = 88, more: Partial<PodSpec> = {}): Promise<Page> {
  const page = await runPod({ spec: { ...spec, ...more }, programs });
  await page.stage.advance("10s");
  await page.stage.exit("watcher", exitCode);
  return page;
}

describe("Restart All Containers", () => {
  test("an exit that the rule fits ends the whole pod and begins it again in its place", async () => {
    const { stage } = await restarted();
    await stage.advance("10s");
    expect(happenings(stage, / (setup|proxy|a|b|watcher) started/).slice(5)).toEqual([
      "10s setup started",
      "11s proxy started",
      "11s a started",
      "11s b started",
      "11s watcher started",
    ]);
  });

  test("one that it does not fit is left to the policy of the container", async () => {
    const { stage } = await restarted(1);
    await stage.advance("10s");
    expect((await containerOf(stage, "watcher")).state?.terminated?.exitCode).toBe(1);
    expect((await containerOf(stage, "a")).restartCount).toBe(0);
  });

  test("an init container may ask for it, and a sidecar", async () => {
    const asking = { ...rules, restartPolicyRules: rules.restartPolicyRules ?? [] };
    const initContainers = [
      container("setup", asking),
      sidecar("proxy", { restartPolicyRules: asking.restartPolicyRules }),
    ];
    const { stage } = await runPod({
      spec: { ...spec, initContainers },
      programs: { setup: { exitsAfterMs: 2000, exitCode: 88 } },
    });
    await stage.advance("3s");
    stage.runtime.programs.set("setup", { exitsAfterMs: 1000 });
    await stage.advance("10s");
    await stage.exit("proxy", 88);
    await stage.advance("10s");
    const counts = ["setup", "proxy", "a"].map(async (name) => (await containerOf(stage, name)).restartCount);
    expect(await Promise.all(counts)).toEqual([3, 1, 1]);
  });
});

describe("How in-place Pod restarts work", () => {
  test("all containers that run are ended; no grace is respected, and no preStop hook is run", async () => {
    const lifecycle = { preStop: { exec: { command: ["drain"] } } };
    const containers = [container("a", { lifecycle }), watcher()];
    const { stage } = await runPod({
      spec: { ...spec, terminationGracePeriodSeconds: 600, containers },
      programs: { ...programs, a: { onTerm: "ignores" } },
    });
    await stage.advance("10s");
    await stage.exit("watcher", 88);
    await stage.advance("10s");
    expect(stage.runtime.calls.filter((call) => call.endsWith(": drain"))).toEqual([]);
    expect(happenings(stage, / a (started|stopped)/)).toEqual(["1s a started", "12s a stopped", "13s a started"]);
  });

  test("the pod's uid, address and sandbox stay", async () => {
    const { stage } = await runPod({ spec, programs });
    await stage.advance("10s");
    const before = await shownPod(stage);
    await stage.exit("watcher", 88);
    await stage.advance("10s");
    const after = await shownPod(stage);
    expect(after?.metadata.uid).toBe(before?.metadata.uid ?? "");
    expect(after?.status?.podIP).toBe(before?.status?.podIP ?? "");
    expect(happenings(stage, /sandbox (started|stopped)/)).toEqual(["0s sandbox started"]);
  });

  test("so do its volumes", async () => {
    const { stage } = await runPod({ spec: { ...spec, volumes: [{ name: "data", emptyDir: {} }] }, programs });
    await stage.advance("10s");
    const folder = stage.disk.paths().find((path) => path.endsWith("empty-dir/data"));
    await stage.disk.at("/").write(`${folder}/kept`, "x", 0o600);
    await stage.exit("watcher", 88);
    await stage.advance("10s");
    expect(stage.disk.paths()).toContain(`${folder}/kept`);
  });

  test("a condition is True as long as containers are being ended", async () => {
    const { told } = await restarted();
    const conditions = told.map(({ conditions = [] }) =>
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

  test("and False once they have ended", async () => {
    const { stage } = await restarted();
    await stage.advance("10s");
    expect(await conditionOf(stage, "AllContainersRestarting")).toMatchObject({ status: "False" });
  });

  test("init containers are run again in their order, then sidecars and all others are started", async () => {
    const initContainers = [container("setup"), container("more"), sidecar("proxy")];
    const times = { ...programs, more: { exitsAfterMs: 2000 } };
    const { stage } = await runPod({ spec: { ...spec, initContainers }, programs: times });
    await stage.advance("10s");
    await stage.exit("watcher", 88);
    await stage.advance("10s");
    expect(happenings(stage, / (setup|more|proxy|a) started/).slice(4)).toEqual([
      "10s setup started",
      "11s more started",
      "13s proxy started",
      "13s a started",
    ]);
  });

  test("containers that have ended before, well or not, are restarted too, whatever their policy", async () => {
    const { stage } = await restarted();
    await stage.advance("500ms");
    expect(happenings(stage, / setup (created|deleted)/)).toEqual([
      "0s setup created",
      "10s setup deleted",
      "10s setup created",
    ]);
    await stage.advance("10s");
    expect((await containerOf(stage, "b")).restartCount).toBe(1);
    expect((await statusOf(stage)).phase).toBe("Running");
  });

  test("what is not there any more says why, and is counted", async () => {
    const { stage, told } = await restarted();
    await stage.advance("10s");
    const reasons = told.flatMap(({ containerStatuses = [] }) =>
      containerStatuses.map(({ state }) => state?.waiting?.reason),
    );
    expect(reasons).toContain("RestartingAllContainers");
    expect(await containerOf(stage, "a")).toMatchObject({
      restartCount: 1,
      lastState: { terminated: { exitCode: 137, reason: "RestartingAllContainers" } },
    });
  });
});
