// Kinds of life that pods of the API have, played for every call after which the agent may die: how they are asked to end, and when.
import { expect } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { apiScenario } from "./api-scenario.ts";
import type { Stage } from "./harness.ts";

const container = (name: string, more: Partial<Container> = {}): Container => ({
  name,
  image: "busybox:1",
  imagePullPolicy: "IfNotPresent",
  ...more,
});
const sidecar = (name: string) => container(name, { restartPolicy: "Always" });

/** These are much alike in how they begin and end, which other plays try call by call. */
const SOME = { apart: 3 };

/** When containers ended, in whole seconds from the first thing that happened on the node, in order. */
const endsOf = ({ runtime: { timeline } }: Stage) =>
  timeline
    .filter(({ what, change }) => what === "container" && change === "stopped")
    .map(({ at, role }) => `${Math.floor((at - (timeline[0]?.at ?? 0)) / 1000)}s ${role.split("/")[1]}`);

apiScenario(
  "a second deletion may shorten the grace of the first, and a third one not lengthen it",
  async (stage) => {
    stage.runtime.programs.set("a", { onTerm: "ignores" });
    await stage.apply("web", { terminationGracePeriodSeconds: 60 });
    await stage.advance("5s");
    await stage.remove("web");
    await stage.advance("5s");
    await stage.remove("web", 10);
    await stage.advance("2s");
    await stage.remove("web", 40);
    await stage.advance("20s");
  },
  async (end, stage) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(endsOf(stage)).toEqual(["20s a"]);
  },
  SOME,
);

apiScenario(
  "a pod that is deleted by force ends on the node too, while one of its name begins",
  async (stage) => {
    stage.runtime.programs.set("a", { onTerm: "ignores" });
    await stage.apply("web", { terminationGracePeriodSeconds: 20 });
    await stage.advance("5s");
    await stage.remove("web", 0);
    await stage.apply("web", { containers: [container("b")] });
    await stage.advance("60s");
  },
  async ({ node, api }) => {
    expect(api).toEqual(["web Running, ready: b running"]);
    expect(node.filter((line) => /^(sandbox|container)/.test(line))).toEqual([
      "container web/b #0 running",
      "sandbox web #0 ready",
    ]);
  },
  SOME,
);

apiScenario(
  "a pod that has run for longer than it may has failed, and stays so until somebody deletes it",
  async (stage) => {
    await stage.apply("web", { activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 3 });
    await stage.advance("60s");
  },
  async ({ api }, stage) => {
    expect(api).toEqual(["web Failed (DeadlineExceeded): a terminated Error 143"]);
    await stage.remove("web");
    await stage.advance("20s");
    expect([stage.scene(), await stage.shown()]).toEqual([[], []]);
  },
  SOME,
);

apiScenario(
  "a pod is ready only when what its gates ask for is so too",
  async (stage) => {
    await stage.apply("web", { readinessGates: [{ conditionType: "example.com/open" }] });
    await stage.advance("5s");
    expect(await stage.shown()).toEqual(["web Running: a running"]);
    const open = { type: "example.com/open", status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" };
    const body = { status: { conditions: [open] } };
    await stage.kube.user.patch(pods("default"), "web", { type: "strategic", body, subresource: "status" });
    await rest();
    await stage.advance("5s");
  },
  async ({ api }) => {
    expect(api).toEqual(["web Running, ready: a running"]);
  },
  SOME,
);

apiScenario(
  "a job with sidecars succeeds, and its sidecars end behind it, the last one first",
  async (stage) => {
    stage.runtime.programs.set("work", { exitsAfterMs: 10_000, exitCode: 0 });
    await stage.apply("job", {
      restartPolicy: "Never",
      initContainers: [sidecar("early"), container("first"), sidecar("late")],
      containers: [container("work")],
    });
    await stage.advance("1s");
    if (stage.runtime.containers.size > 0) await stage.exit("first", 0);
    await stage.advance("60s");
  },
  async ({ api }, stage) => {
    expect(api).toEqual([
      "job Succeeded: init early terminated Error 143, init first terminated Completed 0, init late terminated Error 143, work terminated Completed 0",
    ]);
    expect(endsOf(stage).map((line) => line.split(" ")[1])).toEqual(["first", "work", "late", "early"]);
  },
  SOME,
);

apiScenario(
  "a pod whose preStop hook is asked for by a deletion is gone after it, and what is told of it is its end",
  async (stage) => {
    stage.runtime.commands.set("drain", { lastsMs: 4000 });
    const lifecycle = { preStop: { exec: { command: ["drain"] } } };
    await stage.apply("web", { terminationGracePeriodSeconds: 20, containers: [container("a", { lifecycle })] });
    await stage.advance("5s");
    await stage.remove("web");
    await stage.advance("40s");
  },
  async (end, stage) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(endsOf(stage)).toEqual(["9s a"]);
  },
  SOME,
);
