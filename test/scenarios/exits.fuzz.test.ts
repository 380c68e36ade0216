// However containers exit, and however the API server fails meanwhile: each end is told in the end, as it was, and nothing is taken back.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import type { FakeKube, KubeVerb } from "../fakes/kube.ts";
import { randomOf } from "../random.ts";
import { takenBack } from "../taken-back.ts";
import { createStage, type Stage } from "./stage.ts";

const ROUND = 20;
/** Each exit takes some milliseconds; parsers are tried more often. */
const exits = Math.min(20_000, Number(process.env["FUZZ_RUNS"] ?? 1000));
const rounds = Math.ceil(exits / ROUND);
const longMs = 1_800_000;
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));

const verbs: readonly KubeVerb[] = ["get", "list", "watch", "create", "replace", "patch", "delete"];
const cut = () => new KubeError("UNREACHABLE", "cut");
const refusals = [
  () => new KubeError("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs: 1000 }),
  () => new KubeError("SERVER", "etcd is away", { status: 500 }),
  () => new KubeError("FORBIDDEN", "not allowed", { status: 403 }),
  () => new KubeError("UNAUTHORIZED", "who are you?", { status: 401 }),
  () => new KubeError("CONFLICT", "the object has been modified", { status: 409 }),
];

/** Ways to fail; each returns what ends it. */
const outages: readonly ((kube: FakeKube, random: () => number) => () => void)[] = [
  (kube, random) => {
    kube.goDown();
    return () => {
      if (random() < 0.3) kube.compact();
      kube.comeBack();
    };
  },
  (kube, random) => kube.refuse(refusals[Math.floor(random() * refusals.length)]!),
  (kube) => {
    const releases = verbs.map((verb) => kube.hang(verb));
    kube.silence();
    return () => {
      kube.cutWatches(cut());
      for (const release of releases) release();
    };
  },
  (kube) => {
    kube.cutWatches(cut());
    return () => undefined;
  },
  (kube) => {
    // What is asked is done, and the answer is lost.
    kube.after.patch = () => {
      throw cut();
    };
    return () => {
      kube.after = {};
    };
  },
];

interface Wanted {
  readonly name: string;
  readonly exitCode: number;
}

/** Pods that run once and end at random moments, in a round in which the API server fails some times. */
async function playRound(stage: Stage, round: number, random: () => number): Promise<readonly Wanted[]> {
  const wanted: Wanted[] = [];
  for (let count = 0; count < ROUND; count += 1) {
    const name = `p${round}-${count}`;
    const exitCode = random() < 0.3 ? 0 : 1 + Math.floor(random() * 250);
    stage.runtime.programs.set(name, { exitsAfterMs: Math.floor(random() * 20_000), exitCode });
    const containers = [{ name, image: "busybox:1", imagePullPolicy: "IfNotPresent" as const }];
    const spec = { containers, nodeName: "node", restartPolicy: "Never" as const };
    await stage.kube.user.create(pods("default"), { metadata: { name, namespace: "default" }, spec });
    wanted.push({ name, exitCode });
  }
  await rest();
  for (let outage = 0; outage < 3; outage += 1) {
    await stage.advance(`${Math.floor(random() * 3000)}ms`);
    const end = outages[Math.floor(random() * outages.length)]!(stage.kube, random);
    await stage.advance(`${Math.floor(random() * 8000)}ms`);
    if (random() < 0.2) {
      stage.kill();
      await stage.start();
    }
    end();
  }
  return wanted;
}

const isOver = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";

/** Waits until each has ended, and takes them away. Returns how they were shown in the end. */
async function reap(stage: Stage): Promise<readonly Pod[]> {
  const all = async () => (await stage.kube.user.list(pods("default"), {})).items;
  for (let second = 0; second < 120 && !(await all()).every(isOver); second += 1) await stage.advance("1s");
  const ended = await all();
  for (const { metadata } of ended)
    await stage.kube.user.delete(pods("default"), metadata.name!, { gracePeriodSeconds: 0 });
  await stage.advance("15s");
  return ended;
}

test(
  `${rounds * ROUND} containers that exit at random while the API server fails at random have the final status that is right (BERTH_SEED=${seed})`,
  async () => {
    const random = randomOf(seed);
    const stage = await createStage({ isInCluster: true, startPlaces: ROUND });
    await stage.start();
    let right = 0;
    for (let round = 0; round < rounds; round += 1) {
      const from = `round ${round}`;
      const wanted = await playRound(stage, round, random);
      const shown = new Map((await reap(stage)).map((pod) => [pod.metadata.name, pod.status]));
      for (const { name, exitCode } of wanted) {
        const status = shown.get(name);
        const { exitCode: told, reason } = status?.containerStatuses?.[0]?.state?.terminated ?? {};
        const as = { from, name, phase: status?.phase, exitCode: told, reason };
        const [phase, why] = exitCode === 0 ? ["Succeeded", "Completed"] : ["Failed", "Error"];
        expect(as).toEqual({ from, name, phase: phase as "Failed", exitCode, reason: why as string });
        right += 1;
      }
      const { history } = stage.kube.objects;
      const backwards = history.flatMap(({ resource, type, object, before }) =>
        resource === "pods" && type === "MODIFIED" ? takenBack(before as unknown as Pod, object as unknown as Pod) : [],
      );
      expect({ from, backwards }).toEqual({ from, backwards: [] });
      history.splice(0, history.length);
      stage.kube.compact();
      expect({ from, scene: stage.scene() }).toEqual({ from, scene: [] });
      stage.runtime.timeline.length = 0;
    }
    expect(right).toBe(rounds * ROUND);
  },
  longMs,
);
