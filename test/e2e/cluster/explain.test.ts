import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { startNodeWithoutAgent, type TestNode } from "../node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("berth explain on a node of a cluster");
const nodeName = "explained";
const sleeper = { name: "main", image: busyboxImage, command: ["sleep", "3600"] };

const specs: Readonly<Record<string, Pod["spec"]>> = {
  healthy: { containers: [sleeper] },
  "without-image": { containers: [{ name: "main", image: "127.0.0.1:1/none:1" }] },
  "without-settings": { containers: [{ ...sleeper, envFrom: [{ configMapRef: { name: "settings" } }] }] },
  crashing: { containers: [{ ...sleeper, command: ["sh", "-c", "echo no; exit 127"] }] },
  "too-large": { nodeName, containers: [{ ...sleeper, resources: { requests: { cpu: "1000" } } }] },
  unready: {
    containers: [{ ...sleeper, readinessProbe: { exec: { command: ["test", "-f", "/ready"] }, periodSeconds: 1 } }],
  },
};

describe.skipIf(skip !== undefined)("berth explain", () => {
  let folder: string;
  let plane: ControlPlane;
  let node: TestNode;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-explain-"));
    plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
    const cluster = { kubeconfig: await plane.nodeKubeconfig(nodeName), nodeName };
    node = await startNodeWithoutAgent({ cluster });
    await node.startAgent();
    const items = Object.entries(specs).map(([name, spec]) => ({
      ...{ apiVersion: "v1", kind: "Pod", metadata: { name } },
      spec: { terminationGracePeriodSeconds: 0, ...spec },
    }));
    await plane.kubectl(["apply", "--filename=-"], {
      input: JSON.stringify({ apiVersion: "v1", kind: "List", items }),
    });
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await node?.tearDown();
    await plane?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const explain = async (...args: readonly string[]) => {
    const [program = "", , ...rootDir] = node.agent.podsArgv;
    const { stdout, stderr, exitCode } = await execa(program, ["explain", ...args, ...rootDir], { reject: false });
    return { stdout, stderr, exitCode };
  };
  /** Waits until the explanation of a pod has all these lines, and returns it. */
  const waitFor = async (pod: string, ...lines: readonly RegExp[]) => {
    let text = "";
    try {
      await pollUntil(`an explanation of ${pod}`, 60_000, async () => {
        text = (await explain(pod)).stdout;
        return lines.every((line) => line.test(text));
      });
    } catch (error) {
      throw new Error(`the last explanation of ${pod}:\n${text}`, { cause: error });
    }
    return text;
  };

  test("shows the steps of a start, each with its time and duration, up to Ready", async () => {
    const text = await waitFor("healthy", /^default\/healthy: Running, 1\/1 ready, from the API server$/m);
    const steps = [
      "received",
      "first sync",
      "create the pod's directories",
      "run sandbox",
      "create container",
      "start container",
    ];
    for (const step of steps)
      expect(text).toMatch(new RegExp(`^  \\d\\d:\\d\\d:\\d\\d\\.\\d{3} +(\\d+ ms)? +${step}`, "m"));
    expect(text).toMatch(/ {2}ready\n?$/);
    expect(text).not.toMatch(/^why/m);
  });

  test("says why an image is not pulled, and when it is tried again", async () => {
    await waitFor(
      "without-image",
      /pull image 127\.0\.0\.1:1\/none:1: .*FAILED/,
      /^why {3}container main: (ErrImagePull|ImagePullBackOff): .*connection refused/m,
      /^next {2}tried (once|\d+ times), again/m,
      /^cure {2}this node does not reach 127\.0\.0\.1:1: /m,
      /^run {3}getent hosts 127\.0\.0\.1$/m,
    );
  });

  test("names the ConfigMap that is missing", async () => {
    await waitFor(
      "without-settings",
      /^why {3}container main: CreateContainerConfigError: configmap "settings" not found$/m,
      /^cure {2}create the ConfigMap settings in namespace default, /m,
      /^ {6}kubectl -n default create configmap settings --from-literal=KEY=VALUE$/m,
    );
  });

  test("says how a crashing container ends, and when it is restarted", async () => {
    await waitFor(
      "crashing",
      /^why {3}container main: CrashLoopBackOff: back-off (10s|20s|40s|1m20s|2m40s|5m0s) .*; it exited with code 127$/m,
      /^next {2}tried \d+ times, again at /m,
      /^cure {2}its shell has not found the program/m,
      /^run {3}\S+\/berth logs --root-dir \S+ crashing -c main --previous$/m,
    );
  });

  test("says what a rejected pod requests and what is free", async () => {
    await waitFor(
      "too-large",
      /^default\/too-large: OutOfcpu, /m,
      /^ {6}what pods request counts, not what they use: the pod requests 1000 CPUs/m,
      /^cure {2}lower the pod's requests/m,
    );
  });

  test("asks what the failing probe asks", async () => {
    await waitFor(
      "unready",
      /^default\/unready: Running, 0\/1 ready, /m,
      /^why {3}container main: main is not ready: Readiness probe failed/m,
      /^run {3}\S+\/berth exec --root-dir \S+ unready -c main -- test -f \/ready$/m,
    );
  });

  test("names a pod of a similar name, and exits with 1", async () => {
    const { stderr, exitCode } = await explain("healty");
    expect({ stderr, exitCode }).toEqual({
      stderr: 'berth explain: no pod "healty" in namespace "default", did you mean healthy?',
      exitCode: 1,
    });
  });
});
